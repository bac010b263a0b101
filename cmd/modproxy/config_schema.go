package main

import (
	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/config"
)

func newConfigSchemaCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration, for editors",
		Long: `Print the JSON Schema (draft 7) of a configuration file. Editors with a YAML
language server complete keys, show their descriptions and mark mistakes, if the
first line of the configuration names the file with the schema:

  # yaml-language-server: $schema=modproxy.schema.json

"modproxy config check" finds more mistakes, such as keys that contradict each
other.`,
		Example: "  modproxy config schema > modproxy.schema.json",
		Args:    arguments(0, 0),
		RunE:    func(*cobra.Command, []string) error { return env.printf("%s", config.Schema) },
	}
}
