package bundle

import (
	"io"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/release"
)

// Releases says which releases of providers are taken.
type Releases struct {
	Signers  ledger.Signers // who may sign those of some providers, as in a [ledger.Registry]
	Unsigned Scope          // whose need no signature where their registry lists no key; nil has none
	// OtherNames are whose signed files need not be named after version and platform; nil has none.
	OtherNames Scope
}

// Scope is some providers.
type Scope interface {
	Covers(m modproxy.Module) bool
}

// check returns an error unless a release of a provider is what its record says, and is signed or need not be.
func (rs Releases) check(content io.Reader, rec modproxy.Record) error {
	r, err := release.Open(content)
	if err != nil {
		return err
	}
	facts, err := r.Facts()
	switch {
	case err != nil:
		return err
	case facts != rec.Facts:
		return wrong("it is a release with %s, and its record says %s", facts.Zips, rec.Zips)
	case r.Unsigned && (rs.Unsigned == nil || !rs.Unsigned.Covers(rec.Module)):
		return release.Unallowed()
	case rs.OtherNames == nil || !rs.OtherNames.Covers(rec.Module):
		return r.CheckNames(rec.ModuleVersion)
	}
	return nil
}
