package cache

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// Versions lists the versions of m. A document younger than Fresh is served as it is kept. After that Next is asked
// again; the kept document, up to MaxStale, is served and marked Stale when the answer does not come within a second,
// or the question fails. A version whose package is kept is listed, whatever upstream lists, and one that the ledger knows
// with its source. Offline, only versions whose packages are kept are listed; and while Next fails and no document may be
// served, when the list is marked Stale.
//
// Errors: those of Next; [modproxy.RetryLater] when Next takes longer than three seconds or than ctx;
// [modproxy.NotKept] when offline and no package is kept.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	r.once.Do(r.start)
	k := keyOf(m)
	get := r.versions.get
	if r.Next == nil {
		get = listings{r}.offline
	}
	l, err := get(ctx, k)
	if err != nil {
		return nil, k.wrap("versions", err)
	}
	return l.Versions, nil
}

// Known lists the versions of m that are known without asking Next: those of the kept document, whatever its age, else
// those whose packages are kept. Its error is [fs.ErrNotExist] when nothing is kept.
func (r *Registry) Known(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	r.once.Do(r.start)
	k := keyOf(m)
	a, err := r.versions.read(ctx, k)
	switch {
	case err != nil:
		return nil, k.wrap("versions", err)
	case a != nil:
		return a.kept.Versions, nil
	}
	kept, err := listings{r}.holdings(ctx, m, false, nil)
	if err != nil {
		return nil, k.wrap("versions", err)
	}
	l, err := listings{r}.merge(k, nil, kept, noListing(m), time.Now())
	switch {
	case err != nil:
		return nil, k.wrap("versions", err)
	case l == nil:
		return nil, absent(m.String() + ": no version of it is kept")
	}
	return l.Versions, nil
}

// listing is the versions document of a module as it is kept and served.
type listing struct {
	*modproxy.Versions
	// unlisted are the versions that upstream does not list, and since when, and whose packages are kept or recorded.
	unlisted map[string]time.Time
}

func noListing(m modproxy.Address) *listing { return &listing{Versions: modproxy.NoVersions(m)} }

func (l *listing) size() int64 {
	const each = 160 // a Listed with its Version
	return int64(len(l.Document) + len(l.Compressed) + each*(len(l.List)+len(l.unlisted)+4))
}

func (l *listing) marked(stale bool) *listing {
	v := *l.Versions
	v.Hit, v.Stale = true, stale
	return &listing{&v, l.unlisted}
}

func (l *listing) lists(version string) bool {
	_, listed := l.Find(version)
	return listed
}

// offered returns the versions that upstream lists.
func (l *listing) offered() (list []string) {
	for _, entry := range l.List {
		if _, unlisted := l.unlisted[entry.Version.String()]; !unlisted {
			list = append(list, entry.Version.String())
		}
	}
	return list
}

// listings is the source of versions documents.
type listings struct{ *Registry }

// ask implements source. Versions whose packages are kept stay listed, and versions that the ledger can have fetched again.
func (r listings) ask(ctx context.Context, k key, before *listing) (*listing, error) {
	asked := time.Now()
	v, err := r.Next.Versions(ctx, k.Address)
	r.observe(k.event(VersionsAsked, time.Since(asked), err))
	if err != nil && !errors.Is(err, modproxy.ErrNotFound) {
		return nil, err
	}
	if before == nil {
		before = noListing(k.Address)
	}
	listed := map[string]bool{} // the records of these need not be read
	if v != nil {
		for _, entry := range v.List {
			listed[entry.Version.String()] = true
		}
	}
	known, errKept := r.recorded(ctx, k.Address, listed) // of a provider with all platforms
	if errKept == nil {
		var kept []*holding
		kept, errKept = r.holdings(ctx, k.Address, false, listed)
		known = append(known, kept...)
	}
	if errKept != nil && v == nil { // whether there are any is not known
		return nil, errKept
	}
	if errKept != nil {
		r.observe(k.event(StoreFailed, 0, errKept))
	}
	l, errMerge := r.merge(k, v, known, before, asked)
	if errMerge != nil || l == nil {
		return nil, cmp.Or(errMerge, err)
	}
	for version := range l.unlisted {
		if _, was := before.unlisted[version]; !was {
			r.observe(key{k.Address.At(version)}.event(VersionDropped, 0, nil))
		}
	}
	for version := range before.unlisted {
		if _, is := l.unlisted[version]; !is && l.lists(version) {
			r.observe(key{k.Address.At(version)}.event(VersionListed, 0, nil))
		}
	}
	return l, nil
}

// learn implements source: what is listed is not absent.
func (r listings) learn(k key, l *listing) {
	for _, entry := range l.List {
		r.missing.Drop(key{k.Address.At(entry.Version.String())})
	}
}

// offline returns the versions whose packages are kept, with the entries that upstream had for them. All that ask at once
// have one answer made.
func (r listings) offline(ctx context.Context, k key) (*listing, error) {
	if l, ok := r.offered.Get(k); ok {
		return l, nil
	}
	call, err := r.offers.Join(ctx, k, func(ctx context.Context) (*listing, error) {
		if l, ok := r.offered.Get(k); ok {
			return l, nil
		}
		return r.offer(ctx, k)
	})
	if err != nil { // too much goes on, or modproxy ends
		return r.offer(ctx, k)
	}
	return call.Wait(ctx)
}

// offer makes the answer of offline.
func (r listings) offer(ctx context.Context, k key) (*listing, error) {
	remember := r.offered.Begin(k)
	before := noListing(k.Address)
	switch a, err := r.versions.read(ctx, k); {
	case err != nil:
		return nil, err
	case a != nil:
		before = a.kept
	}
	kept, err := r.holdings(ctx, k.Address, true, nil)
	if err != nil {
		return nil, settleIn(ctx, err)
	}
	platforms := map[string][]modproxy.Platform{}
	var more []modproxy.Listed
	for _, h := range kept {
		if entry, ok := h.entry(); ok {
			platforms[h.version] = h.platforms
			more = append(more, entry) // upstream's counts, if it has one
		}
	}
	if len(more) == 0 {
		return nil, &modproxy.NotKept{Ref: k.Ref}
	}
	var listed *modproxy.Versions
	if k.IsProvider() {
		listed, err = before.OfPlatforms(platforms)
	} else {
		listed, err = before.Only(func(entry modproxy.Listed) bool {
			_, isKept := platforms[entry.Version.String()]
			return isKept
		})
	}
	if err == nil && listed == nil {
		listed = modproxy.NoVersions(k.Address)
	}
	v := listed
	if err == nil {
		v, err = listed.With(more)
	}
	if err != nil {
		return nil, settle(err)
	}
	l := (&listing{Versions: v}).marked(true)
	if v != listed { // when the registry listed the others is not known
		l.Time = time.Now()
	}
	remember(l, recallFor, l.size())
	return l, nil
}

// merge returns got, the versions of a module as upstream lists them now, with those in kept. A nil got means that upstream
// has no such module; the result is nil when no version of it is kept either.
func (r listings) merge(
	k key, got *modproxy.Versions, kept []*holding, before *listing, now time.Time,
) (*listing, error) {
	l := &listing{Versions: got, unlisted: map[string]time.Time{}}
	if got == nil {
		l.Versions = modproxy.NoVersions(k.Address)
	}
	listed := map[string]bool{}
	for _, entry := range l.List {
		listed[entry.Version.String()] = true
	}
	var more []modproxy.Listed
	for _, h := range kept {
		if listed[h.version] {
			continue
		}
		listed[h.version] = true
		entry, ok := before.Find(h.version)
		if !ok {
			entry, ok = h.entry()
		}
		if ok {
			l.unlisted[h.version] = cmp.Or(before.unlisted[h.version], now)
			more = append(more, entry)
		}
	}
	if got == nil && len(more) == 0 {
		return nil, nil
	}
	with, err := l.With(more)
	if err != nil {
		return nil, err
	}
	answered := *with
	if answered.Time.IsZero() {
		answered.Time = now
	}
	l.Versions = &answered
	return l, nil
}

// holding is a version that is kept, or recorded.
type holding struct {
	version   string
	platforms []modproxy.Platform // of a provider, those for which its package is kept, or its release has one
}

// recorded returns the versions of m that the ledger knows with their source, from which they can be fetched again; but not
// those that were not found there of late, and not those to skip.
func (r listings) recorded(ctx context.Context, m modproxy.Address, skip map[string]bool) (list []*holding, err error) {
	for rec, err := range r.Ledger.Of(ctx, m) {
		if err != nil {
			return list, err
		}
		_, gone := r.gone.Get(key{rec.Ref})
		if !rec.IsListed() || gone || rec.Source.URL == "" || skip[rec.Version] {
			continue
		}
		h := &holding{version: rec.Version}
		if m.IsProvider() {
			zips, _ := rec.Zips.All() // which the ledger has parsed
			h.platforms = slices.SortedFunc(maps.Keys(zips), func(a, b modproxy.Platform) int { return strings.Compare(a.String(), b.String()) })
			if len(zips) == 0 {
				continue
			}
		}
		list = append(list, h)
	}
	return list, nil
}

// holdings returns the versions of m whose packages are kept and count; of a provider those whose release is, with the package
// for a platform. Unless it looks close, the records of the latter are enough. It does not look at versions to skip. Beside an
// error it returns what it has found.
func (r listings) holdings(ctx context.Context, m modproxy.Address, close bool, skip map[string]bool) (list []*holding, err error) {
	of := map[string]*holding{}
	for p, err := range r.all(ctx, m) {
		platform, isZip := p.Platform()
		if !isZip && !p.IsListed() || skip[p.Version] || isZip && of[p.Version] == nil { // a release comes before its archives
			continue
		}
		if close || !isZip || err != nil {
			p, err = r.compare(ctx, p, err)
		}
		if close && err == nil {
			err = r.present(ctx, p)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return list, err
		case isZip:
			h := of[p.Version]
			h.platforms = append(h.platforms, platform)
		default:
			of[p.Version] = &holding{version: p.Version}
			list = append(list, of[p.Version])
		}
	}
	if m.IsProvider() {
		list = slices.DeleteFunc(list, func(h *holding) bool { return len(h.platforms) == 0 })
	}
	return list, nil
}

// entry returns an entry with what is known of h, and whether its version is one that clients may ask for.
func (h *holding) entry() (modproxy.Listed, bool) {
	v, err := modproxy.ParseVersion(h.version)
	entry, _ := json.Marshal(modproxy.Release{Version: h.version, Platforms: h.platforms}) // strings do not fail
	return modproxy.Listed{Version: v, Spelling: h.version, Entry: entry}, err == nil
}

// Withdrawn reports whether a record is about a version that its registry lists no more, as far as that is known without
// asking it. It implements [store.Store.Last].
func (r *Registry) Withdrawn(ctx context.Context, ref store.Ref) bool {
	v, _ := VersionOf(ref)
	if v.IsArchive() {
		v = v.Base()
	}
	if v.Version == "" || !v.IsListed() {
		return false
	}
	rec, err := r.Store.Records.Get(ctx, keyOf(v.Address).ref())
	if err != nil {
		return false
	}
	var h listingHeader
	if _, text, err := splitAsked(rec.Value); err == nil {
		header, _, _ := bytes.Cut(text, []byte("\n"))
		_ = json.Unmarshal(header, &h) // without it, nothing is known
	}
	_, unlisted := h.Unlisted[v.Version]
	return unlisted
}

// listingHeader is the first line of a kept document. The document follows, in gzip form.
type listingHeader struct {
	Dropped  int                  `json:"dropped,omitempty"` // as in [modproxy.Versions]
	Time     time.Time            `json:"time"`              // when the registry gave the answer
	Unlisted map[string]time.Time `json:"unlisted,omitempty"`
}

// encode implements source.
func (listings) encode(l *listing) ([]byte, error) {
	text, err := json.Marshal(listingHeader{l.Dropped, l.Time, l.unlisted})
	if err != nil {
		return nil, err
	}
	return append(append(text, '\n'), l.Compressed...), nil
}

// decode implements source.
func (listings) decode(k key, text []byte) (*listing, error) {
	header, document, _ := bytes.Cut(text, []byte("\n"))
	var h listingHeader
	if err := json.Unmarshal(header, &h); err != nil {
		return nil, err
	}
	plain, err := inflate(document)
	if err != nil {
		return nil, err
	}
	v, err := modproxy.RestoreVersions(k.Address, plain, document)
	if err != nil {
		return nil, err
	}
	v.Dropped, v.Time = h.Dropped, h.Time
	return &listing{v, h.Unlisted}, nil
}

const maxDocument = 64 << 20 // bytes of a kept document, well over what upstream may send

// Refreshed is what a refresh of a module found. Versions are in the order in which they are listed.
type Refreshed struct {
	Versions int      `json:"versions"`       // listed now
	New      []string `json:"new,omitempty"`  // Next lists them now, and did not when it was last asked
	Gone     []string `json:"gone,omitempty"` // the other way round
	Kept     []string `json:"kept,omitempty"` // of Gone, those that stay listed because they are kept or recorded
}

// Refresh asks Next for the versions of m now. What [Registry.Forget] forgets of m is forgotten.
//
// Errors: those of Next; [modproxy.RetryLater] when it takes longer than ctx; [modproxy.ErrUnavailable] when offline.
func (r *Registry) Refresh(ctx context.Context, m modproxy.Address) (Refreshed, error) {
	r.once.Do(r.start)
	k := keyOf(m)
	if r.Next == nil {
		return Refreshed{}, k.wrap("versions", fmt.Errorf("%w: offline, and no registry is asked", modproxy.ErrUnavailable))
	}
	a, err := r.versions.read(ctx, k)
	if err != nil {
		return Refreshed{}, k.wrap("versions", err)
	}
	var before []string
	if a != nil {
		before = a.kept.offered()
	}
	r.Forget(k.Ref)
	r.versions.held.Drop(k)
	l, err := r.versions.askAnew(ctx, k, a)
	if err != nil {
		return Refreshed{}, k.wrap("versions", err)
	}
	after := l.offered()
	out := Refreshed{Versions: len(l.List), New: without(after, before), Gone: without(before, after)}
	for _, version := range out.Gone {
		if l.lists(version) {
			out.Kept = append(out.Kept, version)
		}
	}
	return out, nil
}

// without returns what of list is not in other.
func without(list, other []string) []string {
	in := make(map[string]bool, len(other))
	for _, version := range other {
		in[version] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(version string) bool { return in[version] })
}
