package main

import "github.com/spf13/cobra"

func newModulesCommand(env *environment) *cobra.Command {
	return newGroup("modules", "Make and check the entries of own modules",
		`The key modules maps the addresses of your own modules to git repositories. The
tags of a repository are the versions.`,
		newModulesCheckCommand(env), newModulesSuggestCommand(env))
}
