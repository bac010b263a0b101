package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/fetch/git"
)

func newConfigCommand(env *environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the configuration in force, and where each value comes from",
		Long: `Print every key with the value in force and where it was set: the file with its
line, the variable or the flag. Secrets are never printed. Apart from them, the
output is itself a configuration file.`,
		Args: unknownVerb,
		RunE: func(*cobra.Command, []string) error {
			c, err := env.load()
			if err != nil {
				return err
			}
			if asJSON {
				all, err := c.Describe()
				if err != nil {
					return err
				}
				return printDocument(env.stdout, all)
			}
			return c.Print(env.stdout)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, `print one JSON document: {"key": {"value": …, "source": …}, …}`)
	cmd.AddCommand(newConfigCheckCommand(env))
	return cmd
}

func newConfigCheckCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check the configuration",
		Long: `Read the configuration as "modproxy serve" would, including the files with secrets,
and print everything that is wrong with it. Nothing is connected to.`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.load()
			if err != nil {
				return err
			}
			if err := git.Installed(cmd.Context()); err != nil && !c.Offline {
				fmt.Fprintf(env.stderr, "warning: nothing can be fetched from git repositories: %v\n", err)
			}
			_, err = fmt.Fprintln(env.stdout, "The configuration is in order.")
			return err
		},
	}
}
