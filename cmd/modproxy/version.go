package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker (-X main.version=v1.2.3) where the source is not in a
// repository, such as in a container build.
var version string

// buildVersion returns the version of this program that the linker or Go itself has
// set, else "(devel)".
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

const platform = runtime.GOOS + "/" + runtime.GOARCH

// versionText returns what "modproxy version" and "modproxy --version" print.
func versionText() string {
	return fmt.Sprintf("modproxy %s (%s, %s)", buildVersion(), runtime.Version(), platform)
}

func newVersionCommand(env *environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return json.NewEncoder(env.stdout).Encode(map[string]string{
					"version": buildVersion(), "go": runtime.Version(), "platform": platform,
				})
			}
			_, err := fmt.Fprintln(env.stdout, versionText())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, `print one JSON document: {"version": …, "go": …, "platform": …}`)
	return cmd
}
