package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/policy"
)

// reportFlags are the flags of "modproxy policy report".
type reportFlags struct {
	files, groups      []string
	preset             string
	suggest, andBounds bool
	directories        directoryFlags
}

func newPolicyReportCommand(env *environment) *cobra.Command {
	var f reportFlags
	cmd := env.withServer(&cobra.Command{
		Use:   "report [DIR…] | --suggest",
		Short: "Print the cached and recorded versions that rules deny",
		Long:  policyReportHelp,
		Example: `  modproxy policy report
  modproxy policy report --rules candidate.yaml --default deny
  modproxy policy report live/prod --client tofu
  modproxy policy report --suggest > rules.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if err := env.checkReport(f, dirs); err != nil {
				return err
			}
			return env.reportPolicy(cmd.Context(), f, dirs)
		},
	})
	f.addTo(cmd)
	return withJSON(cmd, `"module", "version", "outcome", "place", …`, `"versions", "refused", "by_outcome"`)
}

const policyReportHelp = `Print the versions that the rules in force deny, among all versions that are
cached or in the ledger, one a line: module, version, whether its package is
cached, the outcome, and the place of the rule. The last line counts them.

--rules reports on the rules in a file that is not in force yet, instead of the
rules of the configuration and its files. --default reports on another default.

With DIR, the report is about the modules that the configuration in DIR calls,
and the modules that these call, each in the version that Terraform and OpenTofu
would choose if the rules were in force. It prints the versions that clients
would not get, the versions that they would get instead, and the calls that
bypass modproxy. Missing packages are downloaded for the report. This command
reads DIR, and the proxy reads the modules.

--suggest prints rules instead, as a file for policy.files. They allow each
served module and provider by its name, on the conditions of the rules in force:
groups, min_age and approval. If the rules in force are about some versions of a
module only, so are the printed rules. Versions that lock files allow stay
allowed by allow_locked. Versions that are denied, blocked or rejected are left
out, and so are versions that wait for approval and were therefore not served.`

// addTo adds the flags of "modproxy policy report".
func (f *reportFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.files, "rules", nil, "report on the rules in this `file`; may be repeated")
	addFlag(cmd, &f.preset, "default", "`allow or deny` versions that no rule is about (policy.default)", func(s string) (string, error) {
		if s != "allow" && s != "deny" {
			return "", fmt.Errorf("want allow or deny, not %.80q", s)
		}
		return s, nil
	})
	addFlag(cmd, &f.groups, "as", groupsUsage, parseNames)
	f.directories.add(cmd)
	cmd.Flags().BoolVar(&f.suggest, "suggest", false, "print rules that allow the served modules and providers")
	cmd.Flags().BoolVar(&f.andBounds, "versions", false, "with --suggest, allow only versions from the lowest to the highest served version")
}

// checkReport returns an error for flags and arguments that cannot be combined.
func (env *environment) checkReport(f reportFlags, dirs []string) error {
	switch changed := env.flags.Changed; {
	case f.suggest && (changed("rules") || changed("default") || changed("as") || env.json()):
		return misuse{errors.New("--suggest goes by the rules in force, and prints a file: --rules, --default, --as and --json do not go with it")}
	case f.suggest && len(dirs) > 0:
		return misuse{errors.New("--suggest goes by what was served: it takes no DIR")}
	case f.andBounds && !f.suggest:
		return misuse{errors.New("--versions goes with --suggest")}
	case len(dirs) == 0 && f.directories.given():
		return misuse{errors.New("--client, --var and --var-file go with DIR")}
	}
	return nil
}

// reportPolicy prints the versions that rules refuse, among all versions or those that directories install, or prints rules that allow them
// all.
func (env *environment) reportPolicy(ctx context.Context, f reportFlags, dirs []string) error {
	in := admin.ReportRequest{Default: f.preset, Groups: f.groups}
	if len(f.files) > 0 {
		rules, err := env.candidate(f)
		if err != nil {
			return err
		}
		in.Rules = &rules.Config
	}
	if len(dirs) > 0 {
		return env.forecast(ctx, in, f.directories, dirs)
	}
	var all []admin.ReportItem
	_, err := ask(ctx, env, admin.PolicyReport, in, func(r admin.ReportItem) error {
		all = append(all, r)
		return nil
	})
	switch {
	case err != nil:
		return err
	case f.suggest:
		return env.suggest(all, f.andBounds)
	}
	out := summary{Versions: len(all), By: map[policy.Outcome]int{}}
	for _, r := range all {
		if r.Refused {
			out.Refused++
			out.By[r.Outcome]++
			out.list = append(out.list, r)
			if err := env.item(r, ""); err != nil {
				return err
			}
		}
	}
	return env.end(out, summaryText(out))
}

// candidate returns the rules of files, combined with the rest of the configuration if it exists here.
func (env *environment) candidate(f reportFlags) (*policy.Rules, error) {
	c, err := env.settings()
	if err == nil && c != nil {
		c, err = env.load()
	}
	if err != nil {
		return nil, err
	}
	if c == nil {
		c = config.Default()
	}
	c = c.WithRules(f.files...)
	if f.preset != "" {
		c.Policy.Default = f.preset
	}
	return app.PolicyOf(c)
}

// summary is the result of a report.
type summary struct {
	Versions int                    `json:"versions"`
	Refused  int                    `json:"refused"`
	By       map[policy.Outcome]int `json:"by_outcome"`
	list     []admin.ReportItem
}

// summaryText is a table of refused versions, with a line of totals.
func summaryText(s summary) string {
	out, table := newTable()
	if len(s.list) > 0 {
		fmt.Fprintln(out, "MODULE\tVERSION\tKEPT\tOUTCOME\tRULE")
	}
	for _, r := range s.list {
		kept, place := "no", "-"
		if r.Kept {
			kept = "yes"
		}
		if r.Place != "" {
			place = printable(r.Place)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", r.Module, r.Version, kept, r.Outcome, place)
	}
	return table() + countsText(count(s.Versions, "version"), s.Refused, s.By) + "\n"
}

// countsText describes the number of versions, and the number of refused ones by outcome.
func countsText(versions string, refused int, by map[policy.Outcome]int) string {
	text, sep := fmt.Sprintf("%s, %d refused", versions, refused), ": "
	for _, outcome := range slices.Sorted(maps.Keys(by)) {
		text += fmt.Sprintf("%s%d %s", sep, by[outcome], outcome)
		sep = ", "
	}
	return text
}

// suggest prints rules that allow the served versions. It leaves out versions that an operator or a rule denied, or that still wait for
// approval; in audit mode these were served, too.
func (env *environment) suggest(all []admin.ReportItem, bounds bool) error {
	var served []policy.ServedVersion
	left := 0
	for _, r := range all {
		switch {
		case slices.Contains([]policy.Outcome{policy.Denied, policy.Rejected, policy.Blocked, policy.Reserved}, r.Outcome),
			r.Outcome == policy.Unapproved && !r.Audit:
			left++
			continue
		}
		v, err := r.Parse("")
		if err != nil {
			return err
		}
		served = append(served, policy.ServedVersion{Ref: v, Conditions: r.Conditions, Exact: r.DistinguishVersions})
	}
	text, err := policy.Suggest(served, bounds)
	if err != nil {
		return err
	}
	if err := env.printf("%s", text); err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(env.stderr, "modproxy: %s left out, because the policy refuses them: \"modproxy policy report\" lists them\n", count(left, "version"))
	}
	return nil
}
