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

// Signers names the keys that may sign releases, as the operator configured them.
type Signers interface {
	// Signers returns the keys that may sign the releases of a provider. If ok is false, the keys in the ledger count.
	Signers(m modproxy.Address) (keys modproxy.Keys, ok bool)
}

// ofProvider is Package for a provider. If an archive does not match its release, the registry has probably published another
// release under the same version. ofProvider then requests the release as well, to record that observation.
func (r *Registry) ofProvider(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := r.Next.Package(ctx, v)
	if errors.Is(err, modproxy.ErrNotFound) {
		p, err = r.withdrawn(ctx, v, err)
	}
	if err != nil {
		return nil, err
	}
	if p.Partial != nil {
		p.Partial = &arrival{next: p.Partial, registry: r, of: v, p: p}
		err = r.checkArchive(ctx, v, modproxy.NewSum(p.Digest)) // before any caller reads the content
	} else {
		err = r.Compare(ctx, newRecord(v, p))
	}
	if err == nil {
		return p, nil
	}
	p.Close() // err replaces it
	if v.IsArchive() && errors.Is(err, modproxy.ErrChanged) {
		release := v.Base()
		if p, errRelease := r.Next.Package(ctx, release); errRelease == nil {
			errRelease = r.Compare(ctx, newRecord(release, p))
			p.Close()
			if errors.Is(errRelease, modproxy.ErrChanged) {
				err = errRelease
			}
		}
	}
	return nil, asked("package", v, err)
}

// withdrawn returns the package from the recorded source of v after the registry returned err, an ErrNotFound. For an archive
// that was never downloaded, it uses the address of the recorded release.
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

// beside returns a record for the archive of a release for one platform, on the assumption that it is in the checksums'
// directory.
func beside(release Record, v modproxy.Ref, platform modproxy.Platform) (Record, error) {
	digest, ok := release.Zips.Of(platform)
	directory, ok2 := strings.CutSuffix(release.Source.URL, path.Base(release.Source.URL))
	if !ok || !ok2 {
		return Record{}, fs.ErrNotExist
	}
	name := "terraform-provider-" + v.Name + "_" + release.Version + "_" + platform.String() + ".zip"
	return Record{Ref: v, Sum: modproxy.NewSum(digest), Source: modproxy.Source{URL: directory + name}}, nil
}

// arrival compares a package with the ledger when its download is complete.
type arrival struct {
	next     modproxy.Partial
	registry *Registry
	of       modproxy.Ref
	p        *modproxy.Package
}

// Complete implements [modproxy.Partial].
func (a *arrival) Complete(ctx context.Context) (modproxy.ProviderFacts, error) {
	facts, err := a.next.Complete(ctx)
	if err != nil {
		return modproxy.ProviderFacts{}, err
	}
	rec := newRecord(a.of, a.p)
	rec.ProviderFacts = facts
	if err := a.registry.Compare(ctx, rec); err != nil {
		return modproxy.ProviderFacts{}, asked("package", a.of, err)
	}
	return facts, nil
}

// Open implements [modproxy.Partial].
func (a *arrival) Open(ctx context.Context) (modproxy.Body, error) { return a.next.Open(ctx) }

// checkArchive returns an error if v is a provider's package for one platform and its recorded release has another package for
// that platform. The record of the release must exist: without it, the error is ErrUnavailable.
func (r *Registry) checkArchive(ctx context.Context, v modproxy.Ref, sum modproxy.Sum) error {
	platform, isArchive := v.Platform()
	if !isArchive {
		return nil
	}
	rec, err := r.Ledger.Lookup(ctx, v.Base())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: its release is not recorded yet, and must be downloaded first", modproxy.ErrUnavailable)
	}
	if err != nil {
		return r.failed(ctx, v, err)
	}
	return CheckArchive(rec, platform, sum)
}

// CheckArchive returns an error if the recorded release of a provider has another package for a platform, or no package.
func CheckArchive(rec Record, platform modproxy.Platform, sum modproxy.Sum) error {
	if was, ok := rec.Zips.Of(platform); !ok {
		return fmt.Errorf("%w: its release, recorded %[3]s, has no package for %[2]s", modproxy.ErrChanged, platform, stamp(rec.Time))
	} else if want := modproxy.NewSum(was); want != sum {
		return fmt.Errorf("%w: the package for %s is %s in its release, recorded %s, and %s as offered now",
			modproxy.ErrChanged, platform, want, stamp(rec.Time), sum)
	}
	return nil
}

// checkSigner returns an error if a release is not signed by an allowed key. If no key of the provider is recorded, checkSigner
// records those that signed this release.
func (r *Registry) checkSigner(ctx context.Context, offered Record) error {
	m, keys := offered.Address, offered.Keys
	if offered.Content() != modproxy.ReleaseContent {
		return nil
	}
	if ok, err := CheckSigners(r.Signers, offered); ok || err != nil {
		return err
	}
	rec, err := r.Ledger.Lookup(ctx, m.SigningKeys())
	if errors.Is(err, fs.ErrNotExist) {
		if keys == "" {
			return nil // upstream, or the importer of the bundle, has checked whether an unsigned release is allowed
		}
		rec = keys.Record(m)
		rec.Source, rec.Time = offered.Source, offered.Time
		if err = r.Ledger.Add(ctx, rec); errors.Is(err, modproxy.ErrChanged) { // a concurrent call added other keys
			rec, err = r.Ledger.Lookup(ctx, m.SigningKeys())
		}
	}
	if err != nil {
		return r.failed(ctx, offered.Ref, err)
	}
	switch {
	case keys.Intersects(rec.Keys):
		return nil
	case keys == "":
		return fmt.Errorf("%w: its release is not signed; releases of %s are signed by %s", modproxy.ErrChanged, m, nameKeys(rec.Keys))
	}
	other := keys.Record(m)
	other.Source = offered.Source
	return r.drifted(ctx, rec, other)
}

// CheckSigners returns an error if signers names other keys for the provider than those that signed the offered release. If ok
// is false, signers names no keys, and those in the ledger count. signers may be nil.
func CheckSigners(signers Signers, offered Record) (ok bool, err error) {
	if signers == nil {
		return false, nil
	}
	allowed, ok := signers.Signers(offered.Address)
	if ok && !offered.Keys.Intersects(allowed) {
		err = fmt.Errorf("%w: its release is signed by %s; releases of %s must be signed by %s (operator: set in providers.keys)",
			modproxy.ErrDenied, nameKeys(offered.Keys), offered.Address, nameKeys(allowed))
	}
	return ok, err
}

func nameKeys(keys modproxy.Keys) string {
	if keys == "" {
		return "no key"
	}
	return "the key " + strings.Join(keys.All(), " or ")
}

// renewWithin is the minimum time between two accepted releases with the same packages and other signed documents. Nothing is
// removed from the ledger, and some registries may answer differently every time.
const renewWithin = time.Hour

// renew replaces the record of a release or an archive by the offered one. A release may gain packages. An archive may change to the
// one in the checksums of its release. Any other difference is drift.
func (r *Registry) renew(ctx context.Context, rec, offered Record) error {
	switch {
	case rec.IsArchive(): // checkArchive has compared it with the release
		offered.Reason = "its release was accepted, and names this archive"
	case !offered.Zips.Extends(rec.Zips):
		return r.drifted(ctx, rec, offered)
	case offered.Zips != rec.Zips:
		offered.Reason = "packages were added for " + platforms(offered.Zips, rec.Zips)
	case rec.Reason != "" && time.Since(rec.Time).Abs() < renewWithin:
		return fmt.Errorf("%w: its release was published again, with the same packages, twice within %v", modproxy.ErrUnavailable, renewWithin)
	default:
		offered.Reason = "published again, with the same packages"
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

// platforms names the platforms whose archive in z differs from that in other, or is missing in other.
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
