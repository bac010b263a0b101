package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/versionname"
)

func newPolicyCommand(env *environment) *cobra.Command {
	return newGroup("policy", "Explain which versions of modules clients can use",
		`The policy determines which versions of modules clients can use. It depends on
the rules in the configuration and in the files that it names, on the decisions
of operators, and on the time since a version was first listed.

"test" and "report" work whether or not modproxy serves from the same data
directory, and with --server on a proxy elsewhere. If no proxy serves, the rules
are those of the configuration. "check" needs no data directory.`,
		newPolicyReportCommand(env), newPolicyTestCommand(env), newPolicyCheckCommand(env))
}

func newPolicyTestCommand(env *environment) *cobra.Command {
	var groups []string
	cmd := env.withServer(&cobra.Command{
		Use:   "test MODULE [VERSION]",
		Short: "Explain whether clients can use a version or a module",
		Long: `Print whether the policy allows a version, then every rule and decision about
its module, one a line: its place, its text and its result for the version. A
rule that denies takes precedence over all rules that allow.

Without VERSION, print whether the policy allows the module, and the denied
versions among those that are listed or cached here, with the reasons. No
request is sent to a registry.

` + moduleUsage + `

Exit code 1 means that the version, or the module, is denied. The mode of the
policy makes no difference: "mode: audit" serves denied versions.`,
		Example: `  modproxy policy test acme/vpc/aws 1.0.0
  modproxy policy test acme/vpc/aws --as platform --json`,
		Args: arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := env.chosen(args...)
			if err != nil {
				return err
			}
			out, err := ask(cmd.Context(), env, admin.PolicyTest, admin.PolicyTestRequest{Name: versionname.Of(v), Groups: groups}, nil)
			if err != nil {
				return err
			}
			if err := env.print(out, verdictText(out)); err != nil {
				return err
			}
			if out.Refused {
				return fmt.Errorf("%s: %s", v, out.Why)
			}
			return nil
		},
	})
	addFlag(cmd, &groups, "as", groupsUsage, parseNames)
	return withJSON(cmd, `"outcome", "refused", "why", "steps": [{"place", "rule", "says"}, …]`, "")
}

const groupsUsage = "for a client in these groups, or with a token of this name: `names` with commas between them (default no groups)"

// parseNames reads names separated by commas.
func parseNames(s string) (names []string, err error) {
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name == "" {
			return nil, errors.New("want names with commas between them")
		}
		names = append(names, name)
	}
	return names, nil
}

// verdictText describes a verdict with its steps, and the hidden parts of a module.
func verdictText(v admin.Verdict) string {
	var b bytes.Buffer
	word := "allowed"
	switch {
	case v.Refused && v.Audit:
		word = "refused, and served: the policy has the mode audit"
	case v.Refused:
		word = "refused"
	}
	fmt.Fprintf(&b, "%s is %s\n", strings.TrimSpace(v.Module+" "+v.Version), word)
	out, table := newTable()
	for _, s := range v.Steps {
		fmt.Fprintf(out, "  %s\t%s\t%s\n", printable(s.Place), printable(s.Rule), printable(s.Says))
	}
	b.WriteString(table())
	if v.Version != "" {
		return b.String()
	}
	hidden := 0
	for _, h := range v.Hidden {
		hidden += len(h.Versions)
	}
	fmt.Fprintf(&b, "%s known, %d refused\n", count(v.Known, "version"), hidden)
	for _, h := range v.Hidden {
		fmt.Fprintf(&b, "  %s: %s\n", firstNames(h.Versions, 20), printable(h.Why))
	}
	return b.String()
}
