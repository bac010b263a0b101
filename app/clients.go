package app

import (
	"strings"
	"sync"

	"github.com/modproxy/modproxy/closure"
)

// UsualClient returns a function that calls ask once, if at all.
func UsualClient(ask func() (closure.Client, error)) func() (closure.Client, error) {
	return sync.OnceValues(ask)
}

// ClientsOf returns the clients that a directory is read for if the user names none, and why: those that its files show, or
// else the client that installs most. It returns no client if neither is known, and the directory is read for both. usual may
// fail: a proxy of an older version does not know.
func ClientsOf(dir string, usual func() (closure.Client, error)) (clients []closure.Client, why string) {
	if clients, file := closure.ClientsOf(dir); len(clients) > 0 {
		return clients, "its file " + file + " shows that"
	}
	if client, err := usual(); err == nil && closure.Hosts[client] != "" {
		return []closure.Client{client}, "that is the client that installs most through this proxy"
	}
	return nil, ""
}

// ParseClient returns the clients that a user names: terraform, tofu or both. It returns none for anything else.
func ParseClient(name string) []closure.Client {
	switch client := closure.Client(name); {
	case name == "both":
		return []closure.Client{closure.Terraform, closure.OpenTofu}
	case closure.Hosts[client] != "":
		return []closure.Client{client}
	}
	return nil
}

// ClientNames returns the names of clients, for people.
func ClientNames(clients []closure.Client) string {
	var names []string
	for _, c := range clients {
		names = append(names, map[closure.Client]string{closure.Terraform: "Terraform", closure.OpenTofu: "OpenTofu"}[c])
	}
	return strings.Join(names, " and ")
}
