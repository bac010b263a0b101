package cache

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// StoredPackage is a stored package. Its record has the Subdir and the Facts, for a proxy that has lost its ledger.
type StoredPackage struct {
	modproxy.Ref `json:"-"`
	Digest       modproxy.Digest        `json:"-"`
	Sum          modproxy.Sum           `json:"sum"`
	Size         int64                  `json:"size"`             // bytes
	Fetched      time.Time              `json:"fetched"`          // the package's time, or the time of the download
	Notes        string                 `json:"notes,omitempty"`  // the package's
	Subdir       string                 `json:"subdir,omitempty"` // of the ledger, as in [modproxy.Package]
	Source       modproxy.Source        `json:"-"`                // of the ledger
	Facts        modproxy.ProviderFacts `json:"facts,omitzero"`   // of the ledger

	arrival modproxy.Partial // nil, or the download in progress, without Facts
}

// opened returns p with a body.
func (p *StoredPackage) opened(body modproxy.Body) *modproxy.Package {
	return &modproxy.Package{
		Body: body, Digest: p.Digest, Sum: p.Sum, Size: p.Size, Time: p.Fetched,
		Source: p.Source, Subdir: p.Subdir, Notes: p.Notes, Facts: p.Facts,
	}
}

func (p *StoredPackage) size() int64 { return p.Size }

// record returns the record of p.
func (p *StoredPackage) record() (store.Record, error) {
	value, err := json.Marshal(p)
	return store.Record{Ref: key{p.Ref}.ref(), Value: value, Needs: []modproxy.Digest{p.Digest}}, err
}

// parsePackage reads a record of [PackageKind], without the fields that come from the ledger. On error, err or [store.ErrDamaged],
// the result still has the version parsed from the name of the record.
func parsePackage(rec store.Record, err error) (*StoredPackage, error) {
	v, ok := VersionOf(rec.Ref)
	p := &StoredPackage{Ref: v}
	if err != nil {
		return p, err
	}
	if json.Unmarshal(rec.Value, p) != nil || !ok || len(rec.Needs) != 1 {
		return &StoredPackage{Ref: v}, fmt.Errorf("%w: the record of the package %s", store.ErrDamaged, rec.Key)
	}
	p.Digest = rec.Needs[0]
	return p, nil
}

// VersionOf returns the version of a record of [PackageKind]. ok reports whether ref names such a record.
func VersionOf(ref store.Ref) (v modproxy.Ref, ok bool) {
	if part := strings.Split(ref.Key, "/"); ref.Kind == PackageKind && len(part) == 5 {
		v = modproxy.Address{Host: part[0], Namespace: part[1], Name: part[2], System: part[3]}.At(part[4])
	}
	return v, v.Version != ""
}

// RefOf returns the name of the record of [PackageKind] for a version. It is the inverse of [VersionOf].
func RefOf(v modproxy.Ref) store.Ref { return key{v}.ref() }

// cached is load and blobExists, remembered for rereadAfter.
func (r *Registry) cached(ctx context.Context, k key) (*StoredPackage, error) {
	if p, ok := r.records.Get(k); ok {
		return p, nil
	}
	remember := r.records.Begin(k)
	p, err := r.load(ctx, k)
	if err != nil {
		return nil, err
	}
	if err := r.blobExists(ctx, p); err != nil {
		return nil, err
	}
	remember(p, rereadAfter, 0)
	return p, nil
}

// Stat returns the stored and valid package of a version, without its bytes. It downloads nothing. Errors: [fs.ErrNotExist]
// if such a package does not exist, those of the store.
func (r *Registry) Stat(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := r.cached(ctx, key{v})
	if err != nil {
		return nil, err
	}
	return p.opened(nil), nil
}

// Open is Held, with the bytes. The caller closes the package. Errors are those of Held.
func (r *Registry) Open(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := r.Stat(ctx, v)
	if err == nil {
		p.Body, err = r.Store.Open(ctx, p.Digest, p.Size)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Modules yields the modules with a stored package, each once, sorted by address. It yields no providers.
func (r *Registry) Modules(ctx context.Context) iter.Seq2[modproxy.Address, error] {
	return func(yield func(modproxy.Address, error) bool) {
		var last modproxy.Address
		for rec, err := range r.Store.Records.List(ctx, PackageKind, "") {
			v, ok := VersionOf(rec.Ref)
			switch {
			case err != nil && !errors.Is(err, store.ErrDamaged):
				yield(modproxy.Address{}, err)
				return
			case !ok, !v.IsModule(), v.Address == last:
				continue
			}
			if last = v.Address; !yield(last, nil) {
				return
			}
		}
	}
}

// blobExists returns nil if the bytes of p exist, as far as the store knows without reading them. The error is [fs.ErrNotExist]
// if they do not.
func (r *Registry) blobExists(ctx context.Context, p *StoredPackage) error {
	blob, err := r.Store.Blobs.Stat(ctx, p.Digest)
	if lost(err) || err == nil && blob.Size != p.Size {
		return fmt.Errorf("%w: the package of %s", fs.ErrNotExist, p.Ref.Shown())
	}
	return err
}

// load returns the stored package of k. The error is [fs.ErrNotExist] if a valid one does not exist.
func (r *Registry) load(ctx context.Context, k key) (*StoredPackage, error) {
	p, err := parsePackage(r.Store.Records.Get(ctx, k.ref()))
	return r.compare(ctx, p, err)
}

// compare compares p with the ledger; err is the error of reading p. If the ledger has no record of the version, because it is
// an older copy, compare records the stored sum. The error is [fs.ErrNotExist] if p is not valid.
func (r *Registry) compare(ctx context.Context, p *StoredPackage, err error) (*StoredPackage, error) {
	if err == nil {
		if err = matchesLedger(ctx, r.Ledger, p); errors.Is(err, fs.ErrNotExist) {
			err = r.Record(ctx, p)
			r.observe(key{p.Ref}.event(LedgerBehind, 0, err))
		}
	}
	kind := StoreFailed
	switch {
	case errors.Is(err, modproxy.ErrChanged):
		kind = LedgerDisagrees
	case !errors.Is(err, store.ErrDamaged):
		return p, err
	}
	r.observe(key{p.Ref}.event(kind, 0, err))
	return p, fmt.Errorf("%w: %v", fs.ErrNotExist, err)
}

// Record records the content of p in the ledger. For a release it also records its keys as those that may sign other releases,
// unless such keys are recorded.
func (r *Registry) Record(ctx context.Context, p *StoredPackage) error {
	if p.Facts.Keys != "" {
		_, err := r.Ledger.Lookup(ctx, p.Address.SigningKeys())
		if errors.Is(err, fs.ErrNotExist) {
			keys := p.Facts.Keys.Record(p.Address)
			keys.Time = p.Fetched
			if err = r.Ledger.Add(ctx, keys); errors.Is(err, modproxy.ErrChanged) { // other keys were added meanwhile
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	rec := modproxy.Record{
		Ref: p.Ref, Sum: p.Sum, Subdir: cmp.Or(p.Subdir, "."), Time: p.Fetched, ProviderFacts: p.Facts,
	}
	return r.Ledger.Add(ctx, rec)
}

// all yields the packages of [Registry.List], with the fields of their records only.
func (r *Registry) all(ctx context.Context, m modproxy.Address) iter.Seq2[*StoredPackage, error] {
	prefix := ""
	if m != (modproxy.Address{}) {
		prefix = keyOf(m).ref().Key + "/"
	}
	return func(yield func(*StoredPackage, error) bool) {
		for rec, err := range r.Store.Records.List(ctx, PackageKind, prefix) {
			if !yield(parsePackage(rec, err)) {
				return
			}
		}
	}
}

// Listing is a stored package, valid or not, with what else is known about it.
type Listing struct {
	StoredPackage
	Superseded bool      // the ledger has another sum; the package is not served
	Lost       bool      // its bytes do not exist; the next request downloads it
	Used       time.Time // the time of the last use, if known
	Unlisted   time.Time // the time since when upstream does not list the version; zero while it does
}

// List yields the stored packages of m, or of every module if m is the zero Address. A damaged record comes with its version
// and [store.ErrDamaged]. Any other error ends the sequence.
func (r *Registry) List(ctx context.Context, m modproxy.Address) iter.Seq2[Listing, error] {
	return func(yield func(Listing, error) bool) {
		var of modproxy.Address
		var versions *answer[*listing]
		for p, err := range r.all(ctx, m) {
			l := Listing{StoredPackage: *p}
			if err == nil {
				if r.Ledger != nil {
					l.Superseded = errors.Is(matchesLedger(ctx, r.Ledger, &l.StoredPackage), modproxy.ErrChanged)
				}
				if p.Address != of {
					of = p.Address
					versions, _ = r.versions.peek(ctx, keyOf(of))
				}
				if versions != nil {
					if p.IsListed() || p.IsArchive() {
						l.Unlisted = versions.value.unlisted[p.Version]
					}
				}
				blob, err := r.Store.Stat(ctx, p.Digest)
				l.Used, l.Lost = blob.Used, lost(err)
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// Discarded is a package that was removed.
type Discarded struct {
	StoredPackage          // only the version if the record was damaged
	Shared        []string // the other records that need the bytes, which therefore stay
}

// Discard removes the packages of a version, valid or not, or of every version of its module if the version is empty. The
// release of a provider includes its packages for all platforms. Bytes that another record needs stay, and so do the records of
// the ledger.
//
// Errors: [fs.ErrNotExist] if no package is stored, [modproxy.ErrUnavailable] while one is being downloaded, those of the
// store.
func (r *Registry) Discard(ctx context.Context, v modproxy.Ref) ([]Discarded, error) {
	r.Forget(v) // a failed download is tried again at once
	var refs []store.Ref
	for p, err := range r.all(ctx, v.Address) {
		k := key{p.Ref}
		switch {
		case err != nil && !errors.Is(err, store.ErrDamaged):
			return nil, err
		case !concerns(v, p.Ref):
			continue
		case r.fetches(k).flights.IsRunning(k):
			return nil, fmt.Errorf("%w: %s is being downloaded: try again after it was cached", modproxy.ErrUnavailable, p.Ref.Shown())
		}
		refs = append(refs, k.ref())
	}
	if len(refs) == 0 {
		return nil, absent(v.Shown() + ": no package is cached")
	}
	defer r.Forget(v)
	list, err := r.Store.Discard(ctx, refs...)
	var all []Discarded
	for _, d := range list {
		p, _ := parsePackage(d.Record, nil)
		one := Discarded{StoredPackage: *p}
		for _, ref := range d.Shared {
			name := ref.Key
			if other, ok := VersionOf(ref); ok {
				name = other.Shown()
			}
			one.Shared = append(one.Shared, name)
		}
		all = append(all, one)
	}
	return all, err
}

// absent is the text of an error that is [fs.ErrNotExist], whose own text is about files.
type absent string

func (a absent) Error() string      { return string(a) }
func (absent) Is(target error) bool { return target == fs.ErrNotExist }
