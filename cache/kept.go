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

// Kept is a package that is kept. Its record has the Subdir and the Facts for a proxy that has lost its ledger.
type Kept struct {
	modproxy.Ref `json:"-"`
	Digest       modproxy.Digest `json:"-"`
	Sum          modproxy.Sum    `json:"sum"`
	Size         int64           `json:"size"`             // bytes
	Fetched      time.Time       `json:"fetched"`          // the package's time, or when it was fetched
	Notes        string          `json:"notes,omitempty"`  // the package's
	Subdir       string          `json:"subdir,omitempty"` // of the ledger, as in [modproxy.Package]
	Source       modproxy.Source `json:"-"`                // of the ledger
	Facts        modproxy.Facts  `json:"facts,omitzero"`   // of the ledger

	arrival modproxy.Arrival // nil, or it still comes and has no Facts
}

// opened returns p open as body.
func (p *Kept) opened(body modproxy.Body) *modproxy.Package {
	return &modproxy.Package{
		Body: body, Digest: p.Digest, Sum: p.Sum, Size: p.Size, Time: p.Fetched,
		Source: p.Source, Subdir: p.Subdir, Notes: p.Notes, Facts: p.Facts,
	}
}

func (p *Kept) size() int64 { return p.Size }

// record returns the record to be kept for p.
func (p *Kept) record() (store.Record, error) {
	value, err := json.Marshal(p)
	return store.Record{Ref: key{p.Ref}.ref(), Value: value, Needs: []modproxy.Digest{p.Digest}}, err
}

// parseKept reads a record of [PackageKind], without what the ledger knows. An error, be it err or [store.ErrDamaged],
// comes with what the name of the record says.
func parseKept(rec store.Record, err error) (*Kept, error) {
	v, ok := VersionOf(rec.Ref)
	p := &Kept{Ref: v}
	if err != nil {
		return p, err
	}
	if json.Unmarshal(rec.Value, p) != nil || !ok || len(rec.Needs) != 1 {
		return &Kept{Ref: v}, fmt.Errorf("%w: the record of the package %s", store.ErrDamaged, rec.Key)
	}
	p.Digest = rec.Needs[0]
	return p, nil
}

// VersionOf returns what a record of [PackageKind] is about, and whether ref names one.
func VersionOf(ref store.Ref) (v modproxy.Ref, ok bool) {
	if part := strings.Split(ref.Key, "/"); ref.Kind == PackageKind && len(part) == 5 {
		v = modproxy.Address{Host: part[0], Namespace: part[1], Name: part[2], System: part[3]}.At(part[4])
	}
	return v, v.Version != ""
}

// RefOf returns the name of the record of [PackageKind] about a version. It is the inverse of [VersionOf].
func RefOf(v modproxy.Ref) store.Ref { return key{v}.ref() }

// record is lookup, remembered for recallFor.
func (r *Registry) record(ctx context.Context, k key) (*Kept, error) {
	if p, ok := r.records.Get(k); ok {
		return p, nil
	}
	remember := r.records.Begin(k)
	p, err := r.lookup(ctx, k)
	if err != nil {
		return nil, err
	}
	if err := r.present(ctx, p); err != nil {
		return nil, err
	}
	remember(p, recallFor, 0)
	return p, nil
}

// Held returns the package of a version that is kept and counts, without its bytes. Nothing is fetched. Errors:
// [fs.ErrNotExist] when there is none, those of the store.
func (r *Registry) Held(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	r.once.Do(r.start)
	p, err := r.record(ctx, key{v})
	if err != nil {
		return nil, err
	}
	return p.opened(nil), nil
}

// OpenHeld opens what Held returns. Errors are its own.
func (r *Registry) OpenHeld(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := r.Held(ctx, v)
	if err == nil {
		p.Body, err = r.Store.Open(ctx, p.Digest, p.Size)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Modules yields the modules of which a package is kept, each once.
func (r *Registry) Modules(ctx context.Context) iter.Seq2[modproxy.Address, error] {
	return func(yield func(modproxy.Address, error) bool) {
		var last modproxy.Address
		for rec, err := range r.Store.Records.List(ctx, PackageKind, "") {
			v, ok := VersionOf(rec.Ref)
			switch {
			case err != nil && !errors.Is(err, store.ErrDamaged):
				yield(modproxy.Address{}, err)
				return
			case !ok, v.IsProvider(), v.Address == last:
				continue
			}
			if last = v.Address; !yield(last, nil) {
				return
			}
		}
	}
}

// present returns nil if the bytes of p are there, as far as that is known without reading them. Its error is
// [fs.ErrNotExist] when they are not.
func (r *Registry) present(ctx context.Context, p *Kept) error {
	blob, err := r.Store.Blobs.Stat(ctx, p.Digest)
	if lost(err) || err == nil && blob.Size != p.Size {
		return fmt.Errorf("%w: the package of %s", fs.ErrNotExist, p.Ref.Shown())
	}
	return err
}

// lookup returns the package of k that is kept. Its error is [fs.ErrNotExist] when there is none that counts.
func (r *Registry) lookup(ctx context.Context, k key) (*Kept, error) {
	p, err := parseKept(r.Store.Records.Get(ctx, k.ref()))
	return r.compare(ctx, p, err)
}

// compare compares p, unless err tells that it could not be read, with the ledger. A version that the ledger does not
// know is recorded with the sum that is kept: the ledger is an older copy. The error is [fs.ErrNotExist] when p does
// not count.
func (r *Registry) compare(ctx context.Context, p *Kept, err error) (*Kept, error) {
	if err == nil {
		if err = agrees(ctx, r.Ledger, p); errors.Is(err, fs.ErrNotExist) {
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

// Record records in the ledger that the version of p is what is kept, and if it is a release, that the keys that have signed it
// may sign others, unless there is a record of such keys.
func (r *Registry) Record(ctx context.Context, p *Kept) error {
	if p.Facts.Keys != "" {
		_, err := r.Ledger.Lookup(ctx, p.Address.SigningKeys())
		if errors.Is(err, fs.ErrNotExist) {
			keys := p.Facts.Keys.Record(p.Address)
			keys.Time = p.Fetched
			if err = r.Ledger.Add(ctx, keys); errors.Is(err, modproxy.ErrChanged) { // others were added meanwhile
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	rec := modproxy.Record{
		Ref: p.Ref, Sum: p.Sum, Subdir: cmp.Or(p.Subdir, "."), Time: p.Fetched, Facts: p.Facts,
	}
	return r.Ledger.Add(ctx, rec)
}

// all yields what [Registry.List] does, without what others than the records know.
func (r *Registry) all(ctx context.Context, m modproxy.Address) iter.Seq2[*Kept, error] {
	prefix := ""
	if m != (modproxy.Address{}) {
		prefix = keyOf(m).ref().Key + "/"
	}
	return func(yield func(*Kept, error) bool) {
		for rec, err := range r.Store.Records.List(ctx, PackageKind, prefix) {
			if !yield(parseKept(rec, err)) {
				return
			}
		}
	}
}

// Listing is a package that is kept, also one that does not count, with what else is known about it.
type Listing struct {
	Kept
	Superseded bool      // the ledger has another sum; it is not served
	Lost       bool      // its bytes are not there; it is fetched again
	Used       time.Time // when it was last used, as far as that is known
	Unlisted   time.Time // since when upstream does not list the version; zero while it does
}

// List yields the packages that are kept of m, or of every module when m is the zero Module. A record that is damaged
// comes with its version and [store.ErrDamaged]. Any other error ends the sequence.
func (r *Registry) List(ctx context.Context, m modproxy.Address) iter.Seq2[Listing, error] {
	r.once.Do(r.start)
	return func(yield func(Listing, error) bool) {
		var of modproxy.Address
		var versions *answer[*listing]
		for p, err := range r.all(ctx, m) {
			l := Listing{Kept: *p}
			if err == nil {
				if r.Ledger != nil {
					l.Superseded = errors.Is(agrees(ctx, r.Ledger, &l.Kept), modproxy.ErrChanged)
				}
				if p.Address != of {
					of = p.Address
					versions, _ = r.versions.glance(ctx, keyOf(of))
				}
				if versions != nil {
					if p.IsListed() || p.IsArchive() {
						l.Unlisted = versions.kept.unlisted[p.Version]
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
	Kept            // zero but for the version if the record was damaged
	Shared []string // what else needs the bytes, which therefore stay
}

// Discard removes the packages of a version, or of every version of its module when the version is empty, also those
// that do not count. With the release of a provider go its packages for all platforms. Bytes that another record needs stay, and so does what the ledger knows.
//
// Errors: [fs.ErrNotExist] when none is kept, [modproxy.ErrUnavailable] while one is being fetched, those of the store.
func (r *Registry) Discard(ctx context.Context, v modproxy.Ref) ([]Discarded, error) {
	r.once.Do(r.start)
	r.Forget(v) // what could not be fetched is tried again at once
	var refs []store.Ref
	for p, err := range r.all(ctx, v.Address) {
		k := key{p.Ref}
		switch {
		case err != nil && !errors.Is(err, store.ErrDamaged):
			return nil, err
		case !concerns(v, p.Ref):
			continue
		case r.fetches(k).flights.IsRunning(k):
			return nil, fmt.Errorf("%w: %s is being fetched: try again when it is kept", modproxy.ErrUnavailable, p.Ref.Shown())
		}
		refs = append(refs, k.ref())
	}
	if len(refs) == 0 {
		return nil, absent(v.Shown() + ": no package of it is kept")
	}
	defer r.Forget(v)
	list, err := r.Store.Discard(ctx, refs...)
	var all []Discarded
	for _, d := range list {
		p, _ := parseKept(d.Record, nil)
		one := Discarded{Kept: *p}
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

// absent is the text of an error that is [fs.ErrNotExist], which has a text for files.
type absent string

func (a absent) Error() string      { return string(a) }
func (absent) Is(target error) bool { return target == fs.ErrNotExist }
