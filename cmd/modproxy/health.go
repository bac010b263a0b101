package main

import "github.com/spf13/cobra"

func newHealthCommand(env *environment) *cobra.Command {
	return &cobra.Command{Use: "health", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		_, _, err := env.load()
		return err
	}}
}
