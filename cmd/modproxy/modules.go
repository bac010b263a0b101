package main

import "github.com/spf13/cobra"

func newModulesCommand(env *environment) *cobra.Command {
	return newGroup("modules", "Print mappings from git repositories to your own modules", "", newModulesSuggestCommand(env))
}
