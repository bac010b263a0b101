package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version and commit are set by the linker (-X main.version=v1.2.3 -X main.commit=…) in a release and in a container build.
var version, commit string

const platform = runtime.GOOS + "/" + runtime.GOARCH

// buildVersion returns the version set by the linker or by Go, or "(devel)".
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// buildCommit returns the commit set by the linker, or the one that Go recorded, or "". As in Go's versions, "+dirty" marks a
// checkout with changes that were not committed.
func buildCommit() string {
	if commit != "" {
		return commit
	}
	info, _ := debug.ReadBuildInfo()
	return recordedCommit(info)
}

func recordedCommit(info *debug.BuildInfo) string {
	if info == nil {
		return ""
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["vcs.modified"] == "true" {
		return settings["vcs.revision"] + "+dirty"
	}
	return settings["vcs.revision"]
}

// versionText returns what "modproxy version" and "modproxy --version" print.
func versionText() string {
	if c := buildCommit(); c != "" {
		return fmt.Sprintf("modproxy %s (commit %s, %s, %s)", buildVersion(), c, runtime.Version(), platform)
	}
	return fmt.Sprintf("modproxy %s (%s, %s)", buildVersion(), runtime.Version(), platform)
}

func newVersionCommand(env *environment) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "version",
		Short: "Print the version and the commit of this program",
		Example: `  modproxy version
  modproxy version --json`,
		Args: arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			all := map[string]string{"version": buildVersion(), "commit": buildCommit(), "go": runtime.Version(), "platform": platform}
			return env.print(all, versionText()+"\n")
		},
	}, `"version", "commit", "go", "platform"`, "")
}
