package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/admin"
)

func newLogLevelCommand(env *environment) *cobra.Command {
	return withJSON(withKeys(&cobra.Command{
		Use:   "log-level [debug|info|warn|error]",
		Short: "Print or set the log level of a running modproxy",
		Long: `Print the log level of the process that serves from the data directory, or set
it until the process ends. The key log.level sets it permanently. Only the owner
of the data directory can use this verb, and only on the proxy's machine.`,
		Example: `  modproxy log-level
  modproxy log-level debug`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return env.logLevel(cmd.Context(), args) },
	}, "data"), `"level", "configured"`, "")
}

// logLevel sets the log level to the argument, if there is one, and prints the level.
func (env *environment) logLevel(ctx context.Context, args []string) (err error) {
	var l admin.LogLevel
	if len(args) == 0 {
		l, err = ask(ctx, env, admin.LogLevelGet, struct{}{}, func(struct{}) error { return nil })
	} else {
		l, err = ask(ctx, env, admin.LogLevelSet, admin.LogLevel{Level: args[0]}, func(struct{}) error { return nil })
	}
	if err != nil {
		return err
	}
	text := l.Level
	if l.Level != l.Configured {
		text += fmt.Sprintf(" until a restart, then %s", l.Configured)
	}
	return env.print(l, text+"\n")
}
