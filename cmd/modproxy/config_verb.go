package main

import "github.com/spf13/cobra"

func newConfigCommand(env *environment) *cobra.Command {
	return &cobra.Command{Use: "config", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		_, _, err := env.load()
		return err
	}}
}
