package main

import (
	"github.com/spf13/cobra"
)

// newHelpCommand is cobra's, but for an exit code of 2 for a verb that there is not.
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
			found.InitDefaultHelpFlag() // which would be made when it runs
			return found.Help()
		},
	}
}

// verbOf is a command of cmd by its name; nil if there is none.
func verbOf(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}
