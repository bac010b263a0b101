package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/store"
)

// A Registry answers from a bundle in a file. It does not have the content of earlier bundles of the chain. It is safe for concurrent
// use.
type Registry struct {
	*Head

	held      map[modproxy.Ref]*held
	lists     map[modproxy.Address]*modproxy.Versions
	firstSeen map[modproxy.Address]modproxy.FirstSeen // by folded module
}

var _ modproxy.Registry = (*Registry)(nil)

// held is a version in a bundle.
type held struct {
	pkg    modproxy.Package // without its bytes
	record modproxy.Record
	open   func() modproxy.Body // opens the package
	check  func() error         // verifies the package once, and that an import would accept its release
}

// Open reads a bundle except its packages. Each package is verified before it is first served, and again while it is read. The registry
// serves the releases of providers that an import with rs into an empty ledger would take, and their packages. Errors are those of
// [NewReader].
func Open(file io.ReaderAt, size int64, trust note.Verifiers, rs Releases) (*Registry, error) {
	in := io.NewSectionReader(file, 0, size)
	b, err := NewReader(in, trust)
	if err != nil {
		return nil, err
	}
	r := &Registry{
		Head: b.Head, held: map[modproxy.Ref]*held{}, lists: map[modproxy.Address]*modproxy.Versions{},
		firstSeen: map[modproxy.Address]modproxy.FirstSeen{},
	}
	listed, checker := map[modproxy.Address][]modproxy.Listed{}, store.NewChecker()
	numbers := map[modproxy.Ref]int64{} // in the exporting ledger
	for {
		e, err := b.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = b.skip(in)
		}
		if err != nil {
			return nil, err
		}
		open := func() modproxy.Body {
			return checker.Open(part{io.NewSectionReader(file, e.at, e.Package.Package.Size)}, e.Package.Package.Digest)
		}
		whole := sync.OnceValue(func() error {
			if _, err := io.Copy(io.Discard, open()); err != nil {
				return fmt.Errorf("the bundle has changed: %w", err)
			}
			return nil
		})
		for i, rec := range e.Records {
			numbers[rec.Ref] = e.Facts.Versions[i].Number
			r.add(e, i, open, sync.OnceValue(func() error {
				if err := whole(); err != nil || !rec.IsProvider() || e.isZip() {
					return err
				}
				if err := rs.check(open(), rec); err != nil {
					return err
				}
				_, err := ledger.CheckSigners(rs.Signers, rec)
				return err
			}))
			e.list(i, listed)
		}
	}
	r.refuseContradictions(numbers)
	for m, entries := range listed {
		list, err := modproxy.NoVersions(m).With(entries)
		if err != nil {
			return nil, err
		}
		list.Time = time.Now()
		r.lists[m] = list
	}
	return r, nil
}

// refuseContradictions refuses versions whose record contradicts the earlier record of another spelling, as an import would.
func (r *Registry) refuseContradictions(numbers map[modproxy.Ref]int64) {
	first := map[modproxy.Ref]modproxy.Ref{}
	for v, number := range numbers {
		if f, known := first[v.Folded()]; !known || number < numbers[f] {
			first[v.Folded()] = v
		}
	}
	for v, h := range r.held {
		counts := r.held[first[v.Folded()]].record
		if h.record.Is(counts.Sum, counts.Subdir) {
			continue
		}
		h.check = func() error {
			return fmt.Errorf("%w: its sum is %s; that of %s is %s", modproxy.ErrChanged, h.record.Sum, counts.Ref, counts.Sum)
		}
	}
}

func (r *Registry) add(e *Entry, i int, open func() modproxy.Body, check func() error) {
	v := e.Versions[i].Ref
	r.held[v] = &held{e.pack(i), e.Records[i], open, check}
	if !v.IsListed() {
		return // its first-seen time is that of the version itself
	}
	m := v.Address.Folded()
	firstSeen, ok := r.firstSeen[m]
	if !ok {
		firstSeen.Versions = map[string]modproxy.VersionDates{}
	}
	firstSeen.Versions[v.Version] = e.firstSeen(i)
	r.firstSeen[m] = firstSeen
}

// Hosts returns the hosts of the registries in the bundle, sorted.
func (r *Registry) Hosts() []string {
	hosts := map[string]bool{}
	for v := range r.held {
		hosts[v.Host] = true
	}
	return slices.Sorted(maps.Keys(hosts))
}

// Modules yields the modules in the bundle, sorted by address.
func (r *Registry) Modules(context.Context) iter.Seq2[modproxy.Address, error] {
	return func(yield func(modproxy.Address, error) bool) {
		all := slices.SortedFunc(maps.Keys(r.lists), func(a, b modproxy.Address) int { return strings.Compare(a.String(), b.String()) })
		for _, m := range all {
			if m.IsModule() && !yield(m, nil) {
				return
			}
		}
	}
}

// Versions lists the versions of m in the bundle. If the bundle has no version of m, the error is [modproxy.ErrNotFound].
func (r *Registry) Versions(_ context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	if list := r.lists[m]; list != nil {
		return list, nil
	}
	return nil, absent("versions", m.At(""))
}

// Location returns a location without a URL. Its Subdir is the directory of the module in the package.
func (r *Registry) Location(_ context.Context, v modproxy.Ref) (modproxy.Location, error) {
	h, err := r.find("location", v)
	if err != nil {
		return modproxy.Location{}, err
	}
	return modproxy.Location{Subdir: h.pkg.Subdir, Kept: true}, nil
}

// Package opens a package in the file.
func (r *Registry) Package(_ context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	h, err := r.find("package", v)
	if err != nil {
		return nil, err
	}
	if err = h.check(); err == nil {
		err = r.checkZip(v, h)
	}
	if err != nil {
		return nil, modproxy.Wrap("package", v, err)
	}
	p := h.pkg
	p.Body = h.open()
	return &p, nil
}

// checkZip returns an error if v is the package of a provider for one platform and its release is refused or names another package.
func (r *Registry) checkZip(v modproxy.Ref, h *held) error {
	platform, isZip := v.Platform()
	if !isZip {
		return nil
	}
	release := r.held[v.Base()]
	if release == nil {
		return wrong("its release is not in the bundle")
	}
	if err := release.check(); err != nil {
		return fmt.Errorf("its release: %w", err)
	}
	return ledger.CheckArchive(release.record, platform, modproxy.NewSum(h.pkg.Digest))
}

// part is the section of a file with a package.
type part struct{ *io.SectionReader }

func (part) Close() error { return nil }

func (r *Registry) find(op string, v modproxy.Ref) (*held, error) {
	if h := r.held[v]; h != nil {
		return h, nil
	}
	return nil, absent(op, v)
}

func absent(op string, v modproxy.Ref) error {
	return modproxy.Wrap(op, v, fmt.Errorf("%w: it is not in the bundle", modproxy.ErrNotFound))
}

// Lookup returns the record of a version. The error is [fs.ErrNotExist] if the bundle does not have the version.
func (r *Registry) Lookup(_ context.Context, v modproxy.Ref) (modproxy.Record, error) {
	if h := r.held[v]; h != nil {
		return h.record, nil
	}
	return modproxy.Record{}, fmt.Errorf("%s: %w", v, fs.ErrNotExist)
}

// Decisions returns the decisions in the bundle from a position on, and the position after the last.
func (r *Registry) Decisions(_ context.Context, from int64) ([]modproxy.Decision, int64, error) {
	n := int64(len(r.Head.Decisions))
	return r.Head.Decisions[min(from, n):], n, nil
}

// Of returns when the exporting side has first seen the versions of a module.
func (r *Registry) Of(_ context.Context, m modproxy.Address) (modproxy.FirstSeen, error) {
	return r.firstSeen[m.Folded()], nil
}

// See does nothing, because the first-seen times of a bundle are fixed.
func (r *Registry) See(context.Context, modproxy.Address, *modproxy.Versions) {}

// pack returns the package of a version without its bytes.
func (e *Entry) pack(i int) modproxy.Package {
	rec := e.Records[i]
	p := modproxy.Package{
		Digest: e.Package.Package.Digest, Size: e.Package.Package.Size, Sum: e.Sum, Time: rec.Time, Source: rec.Source,
		Subdir: cmp.Or(rec.Subdir, e.Facts.Versions[i].Subdir), Notes: e.Facts.Notes, Facts: rec.ProviderFacts,
	}
	if p.Subdir == "." {
		p.Subdir = ""
	}
	return p
}

// firstSeen returns the first-seen time of a version, which is at most the time of its record.
func (e *Entry) firstSeen(i int) modproxy.VersionDates {
	seen := modproxy.VersionDates{Seen: e.Facts.Versions[i].Seen, Published: e.Facts.Versions[i].Published}
	if rec := e.Records[i]; seen.Seen.IsZero() || rec.Time.Before(seen.Seen) {
		seen.Seen = rec.Time
	}
	return seen
}
