package app

import (
	"strings"
	"sync"

	"github.com/modproxy/modproxy/tfconfig"
)

// UsualClient returns a function that calls ask at most once, and returns its result.
func UsualClient(ask func() (tfconfig.Client, error)) func() (tfconfig.Client, error) {
	return sync.OnceValues(ask)
}

// ClientsOf returns the clients for which a directory is read if the user names none, and the reason. These are the clients that
// its files are for, or else the client that installs most, as usual returns it. If neither is known, the list is empty and the
// directory is read for both. Errors of usual are ignored, because a proxy of an older version does not have the answer.
func ClientsOf(dir string, usual func() (tfconfig.Client, error)) (clients []tfconfig.Client, why string) {
	if clients, file := tfconfig.DetectClients(dir); len(clients) > 0 {
		return clients, "its file " + file + " shows that"
	}
	if client, err := usual(); err == nil && tfconfig.DefaultHosts[client] != "" {
		return []tfconfig.Client{client}, "that is the client that installs most through this proxy"
	}
	return nil, ""
}

// ParseClient returns the clients for a name: "terraform", "tofu" or "both". It returns nil for other names.
func ParseClient(name string) []tfconfig.Client {
	switch client := tfconfig.Client(name); {
	case name == "both":
		return []tfconfig.Client{tfconfig.Terraform, tfconfig.OpenTofu}
	case tfconfig.DefaultHosts[client] != "":
		return []tfconfig.Client{client}
	}
	return nil
}

// ClientNames returns the names of clients for messages, such as "Terraform and OpenTofu".
func ClientNames(clients []tfconfig.Client) string {
	var names []string
	for _, c := range clients {
		names = append(names, map[tfconfig.Client]string{tfconfig.Terraform: "Terraform", tfconfig.OpenTofu: "OpenTofu"}[c])
	}
	return strings.Join(names, " and ")
}
