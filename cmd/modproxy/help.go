package main

import (
	"github.com/spf13/cobra"
)

// newHelpCommand replaces cobra's, whose exit code for an unknown verb is 0.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB…]",
		Short: "Print what a verb does and which flags it has",
		RunE: func(cmd *cobra.Command, args []string) error {
			found := cmd.Root()
			for _, name := range args {
				inner := verbOf(found, name)
				if inner == nil {
					return misuse{unknownVerb(found, []string{name})}
				}
				found = inner
			}
			found.InitDefaultHelpFlag() // cobra makes it only when a command runs
			return found.Help()
		},
	}
}

// verbOf returns the verb of cmd with the given name, or nil.
func verbOf(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}
