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

// Kept is a package that is kept.
type Kept struct {
	modproxy.ModuleVersion
	Digest  modproxy.Digest
	Sum     modproxy.Sum
	Size    int64           // bytes
	Fetched time.Time       // the package's time, or when it was fetched
	Notes   string          // the package's
	Subdir  string          // of the ledger, as in [modproxy.Package]
	Source  modproxy.Source // of the ledger
}

func (p *Kept) size() int64 { return p.Size }

// packageValue is the value of a record of [PackageKind]. What the version is, the ledger
// says; Subdir is for one that has lost its ledger.
type packageValue struct {
	Sum     modproxy.Sum `json:"sum"`
	Size    int64        `json:"size"`
	Fetched time.Time    `json:"fetched"`
	Notes   string       `json:"notes,omitempty"`
	Subdir  string       `json:"subdir,omitempty"`
}

// record returns the record to be kept for p.
func (p *Kept) record() (store.Record, error) {
	value, err := json.Marshal(packageValue{p.Sum, p.Size, p.Fetched, p.Notes, p.Subdir})
	return store.Record{Ref: key{p.ModuleVersion}.ref(), Value: value, Needs: []modproxy.Digest{p.Digest}}, err
}

// parseKept reads a record of [PackageKind], without what the ledger knows.
func parseKept(rec store.Record) (*Kept, error) {
	p := &Kept{ModuleVersion: versionOf(rec.Ref)}
	var v packageValue
	if err := json.Unmarshal(rec.Value, &v); err != nil || p.Version == "" || len(rec.Needs) != 1 {
		return p, fmt.Errorf("%w: record of the package %s", store.ErrDamaged, rec.Key)
	}
	p.Digest, p.Sum, p.Size, p.Fetched, p.Notes, p.Subdir = rec.Needs[0], v.Sum, v.Size, v.Fetched, v.Notes, v.Subdir
	return p, nil
}

// versionOf returns what a record of [PackageKind] is about; zero for another name.
func versionOf(ref store.Ref) (v modproxy.ModuleVersion) {
	if part := strings.Split(ref.Key, "/"); ref.Kind == PackageKind && len(part) == 5 {
		v = modproxy.Module{Host: part[0], Namespace: part[1], Name: part[2], System: part[3]}.At(part[4])
	}
	return v
}

// record is lookup, remembered for recallFor.
func (r *Registry) record(ctx context.Context, k key) (*Kept, error) {
	if p, ok := r.records.get(k); ok {
		return p, nil
	}
	p, err := r.lookup(ctx, k)
	if err != nil {
		return nil, err
	}
	switch blob, err := r.Store.Blobs.Stat(ctx, p.Digest); {
	case lost(err), err == nil && blob.Size != p.Size:
		return nil, fmt.Errorf("%w: the package of %s", fs.ErrNotExist, k)
	case err != nil:
		return nil, err
	}
	r.records.add(k, p, recallFor)
	return p, nil
}

// lookup returns the package of k that is kept. Its error is [fs.ErrNotExist] when there
// is none that counts.
func (r *Registry) lookup(ctx context.Context, k key) (*Kept, error) {
	rec, err := r.Store.Records.Get(ctx, k.ref())
	if err != nil && !errors.Is(err, store.ErrDamaged) {
		return nil, err
	}
	return r.compare(ctx, rec, err)
}

// compare reads a record and compares it with the ledger. A version that the ledger does
// not know is recorded with the sum that is kept: the ledger is an older copy. The error
// is [fs.ErrNotExist] when the package does not count.
func (r *Registry) compare(ctx context.Context, rec store.Record, err error) (*Kept, error) {
	p, errParse := parseKept(rec)
	if err = cmp.Or(err, errParse); err == nil {
		err = agrees(ctx, r.Ledger, p)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = r.Record(ctx, p)
		r.observe(key{p.ModuleVersion}.event(LedgerBehind, err))
	}
	switch {
	case errors.Is(err, store.ErrDamaged):
		r.observe(key{p.ModuleVersion}.event(StoreFailed, err))
	case errors.Is(err, modproxy.ErrChanged):
		r.observe(key{p.ModuleVersion}.event(LedgerDisagrees, err))
	default:
		return p, err
	}
	return p, fmt.Errorf("%w: %v", fs.ErrNotExist, err)
}

// Record records in the ledger that the version of p is what is kept.
func (r *Registry) Record(ctx context.Context, p *Kept) error {
	return r.Ledger.Add(ctx, modproxy.Record{ModuleVersion: p.ModuleVersion, Sum: p.Sum, Subdir: cmp.Or(p.Subdir, "."), Time: p.Fetched})
}

// kept yields the packages that are kept of m, or of every module when m is the zero
// Module.
func (r *Registry) kept(ctx context.Context, m modproxy.Module) iter.Seq2[*Kept, error] {
	return func(yield func(*Kept, error) bool) {
		for rec, err := range r.Store.Records.List(ctx, PackageKind, prefixOf(m)) {
			if err != nil && !errors.Is(err, store.ErrDamaged) {
				yield(nil, err)
				return
			}
			p, err := r.compare(ctx, rec, err)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// Listing is a package that is kept, also one that does not count, with what else is
// known about it.
type Listing struct {
	Kept
	Superseded bool      // the ledger has another sum; it is not served
	Lost       bool      // its bytes are not there; it is fetched again
	Used       time.Time // when it was last used, as far as that is known
	Unlisted   time.Time // since when upstream does not list the version; zero while it does
}

// List yields the packages that are kept of m, or of every module when m is the zero
// Module. A record that is damaged comes with its version and [store.ErrDamaged]. Any
// other error ends the sequence.
func (r *Registry) List(ctx context.Context, m modproxy.Module) iter.Seq2[Listing, error] {
	r.once.Do(r.start)
	return func(yield func(Listing, error) bool) {
		var of modproxy.Module
		var unlisted map[string]time.Time
		for rec, err := range r.Store.Records.List(ctx, PackageKind, prefixOf(m)) {
			if err != nil && !errors.Is(err, store.ErrDamaged) {
				yield(Listing{}, err)
				return
			}
			p, errParse := parseKept(rec)
			l, err := Listing{Kept: *p}, cmp.Or(err, errParse)
			if err == nil {
				if p.Module != of {
					of, unlisted = p.Module, r.unlisted(ctx, p.Module)
				}
				if r.Ledger != nil {
					l.Superseded = errors.Is(agrees(ctx, r.Ledger, &l.Kept), modproxy.ErrChanged)
				}
				l.Unlisted = unlisted[p.Version]
				blob, err := r.Store.Stat(ctx, p.Digest)
				l.Used, l.Lost = blob.Used, lost(err)
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// prefixOf returns how the keys of the packages of m begin; of all packages for the zero
// Module.
func prefixOf(m modproxy.Module) string {
	if m == (modproxy.Module{}) {
		return ""
	}
	return keyOf(m).ref().Key + "/"
}

// Discarded is a package that was removed.
type Discarded struct {
	Kept            // zero but for the version if the record was damaged
	Shared []string // what else needs the bytes, which therefore stay
}

// Discard removes the packages of a version, or of every version of its module when the
// version is empty, also those that do not count. Bytes that another record needs stay.
// What the ledger knows stays: what is fetched again must be what it was.
//
// Errors: [fs.ErrNotExist] when no package of it is kept, [modproxy.ErrUnavailable] while
// one of them is being fetched, and those of the store.
func (r *Registry) Discard(ctx context.Context, v modproxy.ModuleVersion) ([]Discarded, error) {
	r.once.Do(r.start)
	r.Forget(v) // what could not be fetched is tried again at once
	var refs []store.Ref
	for rec, err := range r.Store.Records.List(ctx, PackageKind, prefixOf(v.Module)) {
		if err != nil && !errors.Is(err, store.ErrDamaged) {
			return nil, err
		}
		is := versionOf(rec.Ref)
		if v.Version != "" && is.Version != v.Version {
			continue
		}
		if r.packages.flights.has(key{is}) {
			return nil, fmt.Errorf("%w: %s is being fetched: try again when it is kept", modproxy.ErrUnavailable, is)
		}
		refs = append(refs, rec.Ref)
	}
	if len(refs) == 0 {
		return nil, absent(v.String() + ": no package of it was ever kept")
	}
	defer r.Forget(v)
	list, err := r.Store.Discard(ctx, refs...)
	var all []Discarded
	for _, d := range list {
		p, _ := parseKept(d.Record)
		one := Discarded{Kept: *p}
		for _, ref := range d.Shared {
			if other, ok := VersionOf(ref); ok {
				one.Shared = append(one.Shared, other.String())
			} else {
				one.Shared = append(one.Shared, ref.Key)
			}
		}
		all = append(all, one)
	}
	return all, err
}

// absent is the text of an error that is [fs.ErrNotExist], which has a text for files.
type absent string

func (a absent) Error() string      { return string(a) }
func (absent) Is(target error) bool { return target == fs.ErrNotExist }

// VersionOf returns what a record of [PackageKind] is about, and whether ref names one.
func VersionOf(ref store.Ref) (modproxy.ModuleVersion, bool) {
	v := versionOf(ref)
	return v, v.Version != ""
}
