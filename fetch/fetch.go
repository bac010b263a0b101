// Package fetch brings the files that a location names.
//
// A [Table] has a [Getter] for each kind of location, by the name before the location's double colon, or the scheme
// of its URL. The Table finds the getter, follows locations that lead to another, and packs what was brought. A new
// kind of location is a new getter in the table; nothing above this package knows which ones there are.
//
// Invariant: a location is data that a stranger wrote. It chooses what is fetched from where package egress allows,
// and is shown only the credentials that are configured for its origin and module.
package fetch

import (
	"context"
	"slices"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/pack"
)

// Getter brings the files of locations of one kind. It is safe for concurrent use.
//
// Errors: [modproxy.ErrInvalid] when the location or content is refused or a limit is hit, [modproxy.ErrNotFound],
// [modproxy.ErrDenied], [modproxy.ErrUnavailable], and the cause of ctx when that ended. None contains a secret.
type Getter interface {
	// Check returns an error if fetching s is sure to be refused. It connects to nothing.
	Check(ctx context.Context, s Source) error

	// Commit returns the commit that s names now, without fetching it; empty if it has none or only a fetch tells.
	Commit(ctx context.Context, s Source) (string, error)

	// Fetch adds the files that s names, whatever its subdirectory, to tree; after an error, perhaps some of them.
	Fetch(ctx context.Context, s Source, tree *pack.Builder) (Result, error)
}

// Source is a location to fetch from.
type Source struct {
	modproxy.Location
	Module modproxy.Address // the module whose package is there
	Commit string           // fetched instead of what the location names, unless empty; archives have none

	// Direct is set where the URL is fetched as it is, and is an archive whose format its first bytes tell.
	Direct bool
	// Own is what the registry itself is shown, if it wants to be shown that here.
	Own []egress.Credential
	// Budget bounds the HTTP requests for one package. [Table.Package] sets it.
	Budget *egress.Budget
}

// Result is what a location came to.
type Result struct {
	From modproxy.Source
	// Pinned tells, also with an error, that a commit or checksum in the location names its content.
	Pinned bool
	// Next, unless nil, is a location that the files are at instead, all of them in its subdirectory.
	Next *modproxy.Location
}

// Credential is what one host is shown when a package is fetched from it.
type Credential struct {
	Host     string        // host or host:port, as in a URL
	Username string        // for https
	Password egress.Secret // for https
	// For ssh, in OpenSSH's formats: a private key without a passphrase, and the keys of hosts. Both are needed: a
	// host whose key is not known is not visited.
	SSHKeyFile, KnownHostsFile string
	// Scope has the modules that it may be used for, whose publishers choose what is fetched; nil has all.
	Scope Scope
}

// Scope is a set of modules.
type Scope interface {
	Covers(m modproxy.Address) bool
}

// Credentials has at most one credential for each host.
type Credentials []Credential

// For returns those that may be used for m.
func (all Credentials) For(m modproxy.Address) Credentials {
	return slices.DeleteFunc(slices.Clone(all), func(c Credential) bool { return c.Scope != nil && !c.Scope.Covers(m) })
}

// Of returns what host is shown; the zero Credential if nothing.
func (all Credentials) Of(host string) (shown Credential) {
	if i := slices.IndexFunc(all, func(c Credential) bool { return c.Host == host }); i >= 0 {
		shown = all[i]
	}
	return shown
}
