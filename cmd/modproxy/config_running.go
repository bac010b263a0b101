package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/config"
)

func newConfigShowCommand(env *environment) *cobra.Command {
	return withJSON(env.withServer(&cobra.Command{
		Use:   "show",
		Short: "Print the configuration of a running modproxy",
		Long: `Print every key with its value in the process that serves from the data
directory, or at --server, and the source of the value. Keys that were changed
since the start, and need a restart, have their old values. Secrets are not
printed.`,
		Example: `  modproxy config show
  modproxy config show --server https://modules.example.com --json`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return env.showConfig(cmd.Context()) },
	}), `"key", "value", "source"`, "")
}

func (env *environment) showConfig(ctx context.Context) error {
	var all []config.Described
	_, err := ask(ctx, env, admin.ConfigGet, struct{}{}, func(k admin.ConfigKey) error {
		all = append(all, config.Described(k))
		return nil
	})
	if err != nil {
		return err
	}
	return env.printKeys(all)
}

func newConfigReloadCommand(env *environment) *cobra.Command {
	return withJSON(env.withServer(&cobra.Command{
		Use:   "reload",
		Short: "Make a running modproxy read its certificate and rules again",
		Long: `Make the process that serves from the data directory, or at --server, read the
TLS certificate and the rules of the policy again, as SIGHUP does. If they have
mistakes, the old ones stay in force, and the verb prints the mistakes and
fails. It also prints changed keys that need a restart.`,
		Example: `  modproxy config reload
  modproxy config reload --server https://modules.example.com`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return env.reloadConfig(cmd.Context()) },
	}), `"reloaded", "rules", "restart_needed"`, "")
}

func (env *environment) reloadConfig(ctx context.Context) error {
	r, err := ask(ctx, env, admin.ConfigReload, struct{}{}, func(struct{}) error { return nil })
	if err != nil {
		return err
	}
	text := fmt.Sprintf("reloaded: %s; %s in force\n", strings.Join(r.Reloaded, ", "), count(r.Rules, "rule"))
	if len(r.Restart) > 0 {
		text += fmt.Sprintf("changed, and needs a restart: %s\n", strings.Join(r.Restart, ", "))
	}
	return env.print(r, text)
}
