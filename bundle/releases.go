package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

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
	Covers(m modproxy.Address) bool
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
	case r.Unsigned && (rs.Unsigned == nil || !rs.Unsigned.Covers(rec.Address)):
		return release.Unallowed()
	case rs.OtherNames == nil || !rs.OtherNames.Covers(rec.Address):
		return r.CheckNames(rec.Ref)
	}
	return nil
}

// checkRelease returns an error if a record is about a package for one platform and the recorded release does not have it, or no
// release is recorded. The error names what brings the release.
func (x *imports) checkRelease(ctx context.Context, rec modproxy.Record) error {
	platform, isZip := rec.Platform()
	if !isZip {
		return nil
	}
	of := rec.Base()
	recorded, err := x.Ledger.Lookup(ctx, of)
	if errors.Is(err, fs.ErrNotExist) {
		_, why := x.findRelease(of)
		return wrong("%s", why)
	}
	if err != nil {
		return nil // the comparison with the ledger returns it
	}
	changed := ledger.CheckArchive(recorded, platform, rec.Sum)
	if changed == nil {
		return nil
	}
	sum, why := x.findRelease(of)
	if sum != "" {
		switch newer, err := x.superseded(ctx, modproxy.Record{Ref: of, Sum: sum}); {
		case err != nil:
			return err
		case newer != "", sum == recorded.Sum: // to import it does not help
			return changed
		}
	}
	return fmt.Errorf("%w: %s", changed, why)
}

// findRelease returns the content of a release as the chain has it, if it has it, and why that is not recorded.
func (x *imports) findRelease(release modproxy.Ref) (sum modproxy.Sum, why string) {
	is := func(v Version) bool { return v.Ref == release }
	for _, p := range x.Index.Packages {
		if slices.ContainsFunc(p.Versions, is) {
			return p.Sum, "its release was refused"
		}
	}
	for _, b := range x.Index.Before {
		if is(b.Version) {
			return b.Sum, fmt.Sprintf("its release came in bundle %d (%s) and is not recorded: import that again, and then this one", b.Bundle, x.Head.Before[b.Bundle-1])
		}
	}
	return "", fmt.Sprintf("its release is not in the bundle: export %s@%s, and import that", release.Address, release.Version)
}
