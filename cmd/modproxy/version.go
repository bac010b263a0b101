package main

import "github.com/spf13/cobra"

func newVersionCommand(env *environment) *cobra.Command {
	return &cobra.Command{Use: "version", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		_, _, err := env.load()
		return err
	}}
}
