package fetch

import (
	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
)

// Credential is what one host is shown when a package is fetched from it.
type Credential struct {
	Host     string        // host or host:port, as in a URL
	Username string        // for https
	Password egress.Secret // for https
	// For ssh, in OpenSSH's formats: a private key without a passphrase, and the keys of hosts. Both are needed: a
	// host whose key is not known is not visited.
	SSHKeyFile, KnownHostsFile string
	// Scope has the modules that it may be used for; nil has all. A publisher chooses where a module's package is,
	// and is given whatever is there.
	Scope Scope
}

// Scope is a set of modules.
type Scope interface {
	Covers(m modproxy.Module) bool
}

// Credentials has at most one credential for each host.
type Credentials []Credential

// For returns those that may be used for m.
func (all Credentials) For(m modproxy.Module) (some Credentials) {
	for _, c := range all {
		if c.Scope == nil || c.Scope.Covers(m) {
			some = append(some, c)
		}
	}
	return some
}

// Of returns what host is shown; the zero Credential if nothing.
func (all Credentials) Of(host string) Credential {
	for _, c := range all {
		if c.Host == host {
			return c
		}
	}
	return Credential{}
}
