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
	Unsigned interface {    // whose need no signature where their registry lists no key; nil has none
		Covers(m modproxy.Module) bool
	}
}

// check returns an error unless a release of a provider is what its records say, and is signed or need not be.
func (rs Releases) check(content io.Reader, records []modproxy.Record) error {
	r, err := release.Open(content)
	if err != nil {
		return err
	}
	facts, err := r.Facts()
	for _, rec := range records {
		if err == nil && facts != rec.Facts {
			err = wrong("it is a release with %s, and its record says %s", facts.Zips, rec.Zips)
		}
		if err == nil && r.Unsigned && (rs.Unsigned == nil || !rs.Unsigned.Covers(rec.Module)) {
			err = release.Unallowed()
		}
	}
	return err
}
