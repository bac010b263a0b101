package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
)

func newPolicyCheckCommand(env *environment) *cobra.Command {
	return withJSON(withKeys(&cobra.Command{
		Use:   "check [FILE…]",
		Short: "Check files with rules",
		Long: `Check files for the key policy.files, and the lock files that they name, and
print every mistake with its file and line. Without FILE, check the
configuration, and the rules in it and in its files.

Each FILE is checked without the configuration and without stored data.

Exit codes: 0 no mistake, 2 at least one mistake.`,
		Example: `  modproxy policy check
  modproxy policy check rules/*.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error { return env.checkPolicy(args) },
	}, "data"), `"problem", "hints"`, `"rules"`)
}

// checkPolicy prints the mistakes in rules: those of files, or without files those of the configuration.
func (env *environment) checkPolicy(files []string) error {
	c, what := config.Default().WithRules(files...), strings.Join(files, ", ")
	if c.Policy.Default = "deny"; len(files) == 0 {
		var err error
		if c, err = env.load(); err != nil {
			return env.asProblems(err)
		}
		what = "The policy"
	}
	rules, err := app.PolicyOf(c)
	if err != nil {
		return env.asProblems(err)
	}
	if len(files) == 0 {
		env.remark(app.NeverHold(c, rules), app.NoProviders(rules))
	}
	return env.end(map[string]int{"rules": len(rules.Rules)}, fmt.Sprintf("%s: %s, in order.\n", what, count(len(rules.Rules), "rule")))
}

// asProblems returns err. With --json it first prints err if it is a list of mistakes.
func (env *environment) asProblems(err error) error {
	var wrong config.Error
	if errors.As(err, &wrong) {
		return env.printProblems(wrong)
	}
	return err
}
