package tfconfig

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/lockfile"
)

// versionFiles are files that tell version managers which client version to use.
var versionFiles = map[string]Client{".terraform-version": Terraform, ".opentofu-version": OpenTofu}

// DetectClients returns the clients that use the configuration in a directory, and the name of the file that shows it. It returns
// no client if no file shows one.
func DetectClients(dir string) (clients []Client, file string) {
	if clients = lockedBy(filepath.Join(dir, lockfile.Name)); len(clients) > 0 {
		return clients, lockfile.Name
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, ""
	}
	both, only := false, "" // whether both clients read files, and the first file that only OpenTofu reads
	for _, entry := range entries {
		name := entry.Name()
		if c := versionFiles[name]; c != "" {
			clients, file = append(clients, c), name
		}
		switch {
		case strings.HasSuffix(name, ".tf"), strings.HasSuffix(name, ".tf.json"):
			both = true
		case only == "" && (strings.HasSuffix(name, ".tofu") || strings.HasSuffix(name, ".tofu.json")):
			only = name
		}
	}
	switch {
	case len(clients) > 0:
		return clients, file
	case only != "" && !both:
		return []Client{OpenTofu}, only
	}
	return nil, ""
}

// lockedBy returns the clients whose default registries provide the providers of a dependency lock file.
func lockedBy(name string) (clients []Client) {
	text, err := durable.ReadRegular(name, lockfile.MaxSize)
	if err != nil {
		return nil
	}
	all, err := lockfile.Parse(text)
	if err != nil {
		return nil
	}
	for _, client := range []Client{Terraform, OpenTofu} {
		if slices.ContainsFunc(all, func(p lockfile.Provider) bool { return p.Host == DefaultHosts[client] }) {
			clients = append(clients, client)
		}
	}
	return clients
}
