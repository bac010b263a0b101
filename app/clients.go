package app

import (
	"strings"
	"sync"

	"github.com/modproxy/modproxy/tfconfig"
)

// UsualClient returns a function that calls ask once, if at all.
func UsualClient(ask func() (tfconfig.Client, error)) func() (tfconfig.Client, error) {
	return sync.OnceValues(ask)
}

// ClientsOf returns the clients that a directory is read for if the user names none, and why: those that its files show, or
// else the client that installs most. It returns no client if neither is known, and the directory is read for both. usual may
// fail: a proxy of an older version does not know.
func ClientsOf(dir string, usual func() (tfconfig.Client, error)) (clients []tfconfig.Client, why string) {
	if clients, file := tfconfig.DetectClients(dir); len(clients) > 0 {
		return clients, "its file " + file + " shows that"
	}
	if client, err := usual(); err == nil && tfconfig.DefaultHosts[client] != "" {
		return []tfconfig.Client{client}, "that is the client that installs most through this proxy"
	}
	return nil, ""
}

// ParseClient returns the clients that a user names: terraform, tofu or both. It returns none for anything else.
func ParseClient(name string) []tfconfig.Client {
	switch client := tfconfig.Client(name); {
	case name == "both":
		return []tfconfig.Client{tfconfig.Terraform, tfconfig.OpenTofu}
	case tfconfig.DefaultHosts[client] != "":
		return []tfconfig.Client{client}
	}
	return nil
}

// ClientNames returns the names of clients, for people.
func ClientNames(clients []tfconfig.Client) string {
	var names []string
	for _, c := range clients {
		names = append(names, map[tfconfig.Client]string{tfconfig.Terraform: "Terraform", tfconfig.OpenTofu: "OpenTofu"}[c])
	}
	return strings.Join(names, " and ")
}
