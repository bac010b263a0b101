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

// Releases has the rules by which releases of providers are accepted.
type Releases struct {
	Signers  ledger.Signers // keys that may sign releases of some providers, as in a [ledger.Registry]
	Unsigned Scope          // providers whose releases need no signature if their registry lists no key; nil: none
	// OtherNames are providers whose signed files need not be named after version and platform; nil: none.
	OtherNames Scope
}

// Scope is a set of providers.
type Scope interface {
	Covers(m modproxy.Address) bool
}

// check returns an error unless the release of a provider matches its record and has a signature, or needs none.
func (rs Releases) check(content io.Reader, rec modproxy.Record) error {
	r, err := release.Open(content)
	if err != nil {
		return err
	}
	facts, err := r.Facts()
	switch {
	case err != nil:
		return err
	case facts != rec.ProviderFacts:
		return wrong("it is a release with %s; its record has %s", facts.Zips, rec.Zips)
	case r.Unsigned && (rs.Unsigned == nil || !rs.Unsigned.Covers(rec.Address)):
		return release.Unallowed()
	case rs.OtherNames == nil || !rs.OtherNames.Covers(rec.Address):
		return r.CheckNames(rec.Ref)
	}
	return nil
}

// checkRelease returns an error if a record is about a package for one platform, and the recorded release does not have that package or is
// missing. The error names the bundle that brings the release.
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
		return nil // the comparison with the ledger returns the error
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
		case newer != "", sum == recorded.Sum: // importing it does not help
			return changed
		}
	}
	return fmt.Errorf("%w: %s", changed, why)
}

// findRelease returns the sum of a release in the chain, if the chain has it, and the reason why it is not recorded here.
func (x *imports) findRelease(release modproxy.Ref) (sum modproxy.Sum, why string) {
	is := func(v Version) bool { return v.Ref == release }
	for _, p := range x.Index.Packages {
		if slices.ContainsFunc(p.Versions, is) {
			return p.Sum, "its release was refused"
		}
	}
	for _, b := range x.Index.Before {
		if is(b.Version) {
			return b.Sum, fmt.Sprintf("its release was in bundle %d (%s) and is not recorded: import that bundle again, then this one", b.Bundle, x.Head.Before[b.Bundle-1])
		}
	}
	return "", fmt.Sprintf("its release is not in the bundle: export %s@%s, and import that", release.Address, release.Version)
}
