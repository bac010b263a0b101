package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// Signers are the keys that may sign releases, as an operator has said.
type Signers interface {
	// Signers returns the keys that may sign the releases of a provider. ok is false where the ledger says that.
	Signers(m modproxy.Address) (keys modproxy.Keys, ok bool)
}

// ofProvider is Package for a provider. Where an archive is not the one of its release, its registry has published another
// release as the same version, most likely: that is asked for to be observed.
func (r *Registry) ofProvider(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := r.Next.Package(ctx, v)
	if errors.Is(err, modproxy.ErrNotFound) {
		p, err = r.withdrawn(ctx, v, err)
	}
	if err != nil {
		return nil, err
	}
	if p.Arrival != nil {
		p.Arrival = &arrival{next: p.Arrival, registry: r, of: v, p: p}
		err = r.checkArchive(ctx, v, modproxy.NewSum(p.Digest)) // before anybody reads of it
	} else {
		err = r.Compare(ctx, sighted(v, p))
	}
	if err == nil {
		return p, nil
	}
	p.Close() // it is not used
	if v.IsArchive() && errors.Is(err, modproxy.ErrChanged) {
		release := v.Base()
		if p, errRelease := r.Next.Package(ctx, release); errRelease == nil {
			errRelease = r.Compare(ctx, sighted(release, p))
			p.Close()
			if errors.Is(errRelease, modproxy.ErrChanged) {
				err = errRelease
			}
		}
	}
	return nil, asked("package", v, err)
}

// withdrawn returns what the recorded source of v has, which its registry says by err that it does not have. An archive that
// was never fetched is looked for beside the others of its release.
func (r *Registry) withdrawn(ctx context.Context, v modproxy.Ref, err error) (*modproxy.Package, error) {
	rec, absent := r.recorded(ctx, v)
	if platform, isArchive := v.Platform(); isArchive && errors.Is(absent, fs.ErrNotExist) {
		if rec, absent = r.recorded(ctx, v.Base()); absent == nil {
			rec, absent = beside(rec, v, platform)
		}
	}
	if absent != nil {
		return nil, err
	}
	p, errRecorded := r.Next.PackageAt(ctx, rec)
	if errRecorded != nil {
		return nil, notRecorded(err, errRecorded)
	}
	return p, nil
}

// beside returns what would be the record of the archive of a release for a platform if it is where the checksums are.
func beside(release Record, v modproxy.Ref, platform modproxy.Platform) (Record, error) {
	digest, ok := release.Zips.Of(platform)
	directory, ok2 := strings.CutSuffix(release.Source.URL, path.Base(release.Source.URL))
	if !ok || !ok2 {
		return Record{}, fs.ErrNotExist
	}
	name := "terraform-provider-" + v.Name + "_" + release.Version + "_" + platform.String() + ".zip"
	return Record{Ref: v, Sum: modproxy.NewSum(digest), Source: modproxy.Source{URL: directory + name}}, nil
}

// arrival compares a package when it is there.
type arrival struct {
	next     modproxy.Arrival
	registry *Registry
	of       modproxy.Ref
	p        *modproxy.Package
}

// Arrived implements [modproxy.Arrival].
func (a *arrival) Arrived(ctx context.Context) (modproxy.Facts, error) {
	facts, err := a.next.Arrived(ctx)
	if err != nil {
		return modproxy.Facts{}, err
	}
	rec := sighted(a.of, a.p)
	rec.Facts = facts
	if err := a.registry.Compare(ctx, rec); err != nil {
		return modproxy.Facts{}, asked("package", a.of, err)
	}
	return facts, nil
}

// Open implements [modproxy.Arrival].
func (a *arrival) Open(ctx context.Context) (modproxy.Body, error) { return a.next.Open(ctx) }

// checkArchive returns an error if v is the package of a provider for one platform, and its release has another there. The
// record of the release must be there: its registry is asked for that first.
func (r *Registry) checkArchive(ctx context.Context, v modproxy.Ref, sum modproxy.Sum) error {
	platform, isArchive := v.Platform()
	if !isArchive {
		return nil
	}
	rec, err := r.Ledger.Lookup(ctx, v.Base())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: its release is not recorded, and is asked for first", modproxy.ErrUnavailable)
	}
	if err != nil {
		return r.failed(ctx, v, err)
	}
	return CheckArchive(rec, platform, sum)
}

// CheckArchive returns an error if the release of a provider, as it was recorded, has another package for a platform.
func CheckArchive(rec Record, platform modproxy.Platform, sum modproxy.Sum) error {
	if was, ok := rec.Zips.Of(platform); !ok {
		return fmt.Errorf("%w: its release has no package for %s, as it was recorded %s", modproxy.ErrChanged, platform, stamp(rec.Time))
	} else if want := modproxy.NewSum(was); want != sum {
		return fmt.Errorf("%w: its release has another package for %s, %s, as it was recorded %s, and is offered with %s now",
			modproxy.ErrChanged, platform, want, stamp(rec.Time), sum)
	}
	return nil
}

// checkSigner returns an error if a release was not signed by a key that may sign it. Where no key is known, those that have
// signed it may from now on.
func (r *Registry) checkSigner(ctx context.Context, offered Record) error {
	m, keys := offered.Address, offered.Keys
	if offered.IsArchive() || !m.IsProvider() || offered.Variant.Kind == modproxy.KeysVariant {
		return nil
	}
	if ok, err := CheckPinned(r.Signers, offered); ok || err != nil {
		return err
	}
	rec, err := r.Ledger.Lookup(ctx, m.SigningKeys())
	if errors.Is(err, fs.ErrNotExist) {
		if keys == "" {
			return nil // upstream, or who imports a bundle, has looked whether it may be
		}
		rec = keys.Record(m)
		rec.Source, rec.Time = offered.Source, offered.Time
		if err = r.Ledger.Add(ctx, rec); errors.Is(err, modproxy.ErrChanged) { // others were added meanwhile
			rec, err = r.Ledger.Lookup(ctx, m.SigningKeys())
		}
	}
	if err != nil {
		return r.failed(ctx, offered.Ref, err)
	}
	switch {
	case keys.Meets(rec.Keys):
		return nil
	case keys == "":
		return fmt.Errorf("%w: its release is not signed, and those of %s are signed by %s", modproxy.ErrChanged, m, nameKeys(rec.Keys))
	}
	other := keys.Record(m)
	other.Source = offered.Source
	return r.drifted(ctx, rec, other)
}

// CheckPinned returns an error if signers, which may be nil, says that others sign the releases of the provider. ok is false where
// the ledger says who does.
func CheckPinned(signers Signers, offered Record) (ok bool, err error) {
	if signers == nil {
		return false, nil
	}
	pinned, ok := signers.Signers(offered.Address)
	if ok && !offered.Keys.Meets(pinned) {
		err = fmt.Errorf("%w: its release is signed by %s, and those of %s have to be signed by %s (operator: providers.keys says so)",
			modproxy.ErrDenied, nameKeys(offered.Keys), offered.Address, nameKeys(pinned))
	}
	return ok, err
}

func nameKeys(keys modproxy.Keys) string {
	if keys == "" {
		return "nobody"
	}
	return "the key " + strings.Join(keys.All(), " or ")
}

// renewWithin is how often a release is taken again whose packages are the same, but not what was signed: nothing is removed
// from the ledger, and some registries may answer with something else every time.
const renewWithin = time.Hour

// renew records that what a provider was recorded with has become what is offered. A release may gain packages, and an archive
// becomes what its release says. Anything else has changed.
func (r *Registry) renew(ctx context.Context, rec, offered Record) error {
	isArchive := rec.IsArchive()
	switch {
	case rec.Variant.Kind == modproxy.KeysVariant:
		return r.drifted(ctx, rec, offered)
	case isArchive: // see checkArchive
		offered.Reason = "its release was accepted, and says so"
	case !offered.Zips.Extends(rec.Zips):
		return r.drifted(ctx, rec, offered)
	case offered.Zips != rec.Zips:
		offered.Reason = "packages were added for " + platforms(offered.Zips, rec.Zips)
	case rec.Reason != "" && time.Since(rec.Time).Abs() < renewWithin:
		return fmt.Errorf("%w: its release was published anew again, with the same packages, within %v", modproxy.ErrUnavailable, renewWithin)
	default:
		offered.Reason = "published anew, with the same packages"
	}
	if err := r.checkSigner(ctx, offered); err != nil {
		return err
	}
	offered.Time = time.Now()
	if err := r.Ledger.Accept(ctx, offered); err != nil {
		return r.failed(ctx, offered.Ref, err)
	}
	r.observe(Event{Kind: Renewed, Ref: offered.Ref, Record: offered})
	return nil
}

// platforms names those for which z has another archive than other, or one that other has not.
func platforms(z, other modproxy.Zips) string {
	all, _ := z.All()
	was, _ := other.All()
	var names []string
	for p, d := range all {
		if before, ok := was[p]; !ok || before != d {
			names = append(names, p.String())
		}
	}
	slices.Sort(names)
	const most = 10
	if n := len(names) - most; n > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ")
}
