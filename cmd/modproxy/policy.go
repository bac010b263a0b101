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
	return newGroup("policy", "Explain which versions of modules may be used",
		`The policy says which versions of modules may be used: by the rules in the
configuration and in the files that it names, by what operators decided, and by
how long a version has been listed.

"test" and "report" work whether or not modproxy serves from the same data
directory, and with --server on a proxy elsewhere. Where none serves, the rules
are those of the configuration. "check" needs no data directory.`,
		newPolicyReportCommand(env), newPolicyTestCommand(env), newPolicyCheckCommand(env))
}

func newPolicyTestCommand(env *environment) *cobra.Command {
	var groups []string
	cmd := env.withServer(&cobra.Command{
		Use:   "test MODULE [VERSION]",
		Short: "Explain whether a version, or a module, may be used",
		Long: `Print whether a version may be used, then what every rule and decision says
that is about its module, in a line each: where it stands, what it is, what it
says. A rule that refuses wins over all that allow.

Without VERSION, print whether the module may be used at all, and which of the
versions that are listed or cached here are refused, and why. Nothing is
requested from registries.

` + moduleUsage + `

Exit code 1 means that the version, or the module, is refused. The mode of the
policy makes no difference: with "mode: audit" it is served all the same.`,
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

const groupsUsage = "for a client of the groups `names`, or with a token of that name; with commas between them (a client of no group)"

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
