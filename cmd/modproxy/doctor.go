package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/doctor"
)

func newDoctorCommand(env *environment) *cobra.Command {
	var client string
	cmd := withKeys(&cobra.Command{
		Use:   "doctor",
		Short: "Check a set-up, and name causes and remedies",
		Long: `Examine the configuration, the data directory, git, limits and clock of this
machine, names and TLS as clients see them, proxy variables, and each upstream.
Print every problem with its cause and a remedy. doctor changes nothing, and
takes at most 15 seconds. modproxy can run meanwhile.

--client also examines a CLI configuration of Terraform or OpenTofu: whether it
points at this proxy, and whether its tokens are valid. Without a
configuration file or a flag for a key, doctor then examines only the client.

The exit code is 0 if doctor has found no problem, and 1 if it has found one.`,
		Example: `  modproxy doctor --config /etc/modproxy/modproxy.yaml
  modproxy doctor --client ~/.terraformrc`,
		Args:       arguments(0, 0),
		SuggestFor: []string{"check", "diagnose"},
		RunE:       func(cmd *cobra.Command, _ []string) error { return env.doctor(cmd.Context(), client) },
	}, "*")
	addFlag(cmd, &client, "client", "also examine this CLI configuration `file` of a developer", parseFile)
	return withJSON(cmd, `"kind", "severity", "subject", "cause", "remedy"`, `"errors", "warnings", "checked", "skipped"`)
}

// doctor prints the findings of an examination. If there are any, the error has their number.
func (env *environment) doctor(ctx context.Context, client string) error {
	if _, err := os.Stat(client); client != "" && err != nil {
		return misuse{fmt.Errorf("--client: %w", err)}
	}
	o := doctor.Options{Client: client, Version: buildVersion()}
	if client == "" || env.configFile() != "" || len(env.keyFlags()) > 0 {
		o.Config, o.Wrong = config.Check(env.configFile(), env.variables, env.keyFlags())
	}
	report := doctor.Run(ctx, o)
	if err := ctx.Err(); err != nil {
		return err
	}
	n := map[doctor.Severity]int{}
	for _, f := range report.Findings {
		n[f.Severity]++
		text := fmt.Sprintf("%s %s: %s: %s\n  hint: %s\n", f.Severity, f.Kind, printable(f.Subject), printable(f.Cause), printable(f.Remedy))
		if err := env.item(f, text); err != nil {
			return err
		}
	}
	summary := map[string]any{"errors": n[doctor.Error], "warnings": n[doctor.Warning], "checked": report.Checked, "skipped": report.Skipped}
	text := "checked: " + strings.Join(report.Checked, ", ") + "\n"
	if len(report.Skipped) > 0 {
		text += "not checked: " + printable(strings.Join(report.Skipped, ", ")) + "\n"
	}
	if err := env.end(summary, text); err != nil {
		return err
	}
	if len(report.Findings) > 0 {
		return fmt.Errorf("%s and %s found", count(n[doctor.Error], "error"), count(n[doctor.Warning], "warning"))
	}
	return nil
}
