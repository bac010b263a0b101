package cache

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
)

// Versions lists the versions of m. A document younger than Fresh is served as it is kept. After that Next is asked
// again; the kept document, up to MaxStale, is served and marked Stale when the answer does not come within a second,
// or the question fails. A version whose package is kept is listed, whatever upstream lists. Offline, nothing else is.
//
// Errors: those of Next; [modproxy.RetryLater] when Next takes longer than three seconds or than ctx;
// [modproxy.NotKept] when offline and no package is kept.
func (r *Registry) Versions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
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
func (r *Registry) Known(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	r.once.Do(r.start)
	k := keyOf(m)
	a, err := r.versions.read(ctx, k)
	switch {
	case err != nil:
		return nil, k.wrap("versions", err)
	case a != nil:
		return a.kept.Versions, nil
	}
	l, err := listings{r}.merge(ctx, k, nil, noListing, time.Now())
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
	// unlisted are the versions that upstream does not list, and since when, and whose packages are kept.
	unlisted map[string]time.Time
}

var noListing = &listing{Versions: &modproxy.Versions{Document: []byte(`{"modules":[{"versions":[]}]}`)}}

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

// ask implements source. Versions whose packages are kept stay listed.
func (r listings) ask(ctx context.Context, k key, before *listing) (*listing, error) {
	asked := time.Now()
	v, err := r.Next.Versions(ctx, k.Module)
	r.observe(k.event(VersionsAsked, time.Since(asked), err))
	if err != nil && !errors.Is(err, modproxy.ErrNotFound) {
		return nil, err
	}
	if before == nil {
		before = noListing
	}
	l, errMerge := r.merge(ctx, k, v, before, asked)
	if errMerge != nil || l == nil {
		return nil, cmp.Or(errMerge, err)
	}
	for version := range l.unlisted {
		if _, was := before.unlisted[version]; !was {
			r.observe(key{k.Module.At(version)}.event(VersionDropped, 0, nil))
		}
	}
	for version := range before.unlisted {
		if _, is := l.unlisted[version]; !is && l.lists(version) {
			r.observe(key{k.Module.At(version)}.event(VersionListed, 0, nil))
		}
	}
	return l, nil
}

// learn implements source: what is listed is not absent.
func (r listings) learn(k key, l *listing) {
	for _, entry := range l.List {
		r.missing.drop(key{k.Module.At(entry.Version.String())})
	}
}

// offline returns the versions whose packages are kept, with the entries that upstream had for them. All that ask at once
// have one answer made.
func (r listings) offline(ctx context.Context, k key) (*listing, error) {
	if l, ok := r.offered.get(k); ok {
		return l, nil
	}
	call, err := r.offers.join(ctx, r.asking, "", k, func(ctx context.Context) (*listing, error) {
		if l, ok := r.offered.get(k); ok {
			return l, nil
		}
		return r.offer(ctx, k)
	})
	if err != nil { // too much goes on, or modproxy ends
		return r.offer(ctx, k)
	}
	select {
	case <-call.done:
		return call.value, call.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// offer makes the answer of offline.
func (r listings) offer(ctx context.Context, k key) (*listing, error) {
	remember := r.offered.begin(k)
	before := noListing
	switch a, err := r.versions.read(ctx, k); {
	case err != nil:
		return nil, err
	case a != nil:
		before = a.kept
	}
	kept := map[string]bool{}
	var more []modproxy.Listed
	for p, err := range r.all(ctx, k.Module) {
		if p, err = r.compare(ctx, p, err); err == nil {
			err = r.present(ctx, p)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, settleIn(ctx, err)
		}
		kept[p.Version] = true
		if entry, ok := entryOf(p.Version); ok {
			more = append(more, entry) // upstream's counts, if it has one
		}
	}
	if len(more) == 0 {
		return nil, &modproxy.NotKept{ModuleVersion: k.ModuleVersion}
	}
	listed, err := before.Only(func(entry modproxy.Listed) bool { return kept[entry.Version.String()] })
	if err == nil && listed == nil {
		listed = noListing.Versions
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

// merge returns got, the versions of a module as upstream lists them now, with those whose packages are kept. A nil got
// means that upstream has no such module; the result is nil when no package of it is kept either.
func (r listings) merge(
	ctx context.Context, k key, got *modproxy.Versions, before *listing, now time.Time,
) (*listing, error) {
	l := &listing{Versions: got, unlisted: map[string]time.Time{}}
	if got == nil {
		l.Versions = noListing.Versions
	}
	listed := map[string]bool{}
	for _, entry := range l.List {
		listed[entry.Version.String()] = true
	}
	var more []modproxy.Listed
	for p, err := range r.all(ctx, k.Module) {
		p, err = r.compare(ctx, p, err)
		if errors.Is(err, fs.ErrNotExist) || err == nil && listed[p.Version] {
			continue
		}
		if err != nil && got == nil { // whether packages are kept is not known
			return nil, err
		}
		if err != nil {
			r.observe(k.event(StoreFailed, 0, err))
			break
		}
		entry, ok := before.Find(p.Version)
		if !ok {
			entry, ok = entryOf(p.Version)
		}
		if ok {
			l.unlisted[p.Version] = cmp.Or(before.unlisted[p.Version], now)
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

// entryOf returns an entry with nothing but a version, and whether version is one that clients may ask for.
func entryOf(version string) (modproxy.Listed, bool) {
	v, err := modproxy.ParseVersion(version)
	if _, made := (modproxy.Module{}).At(version).Origin(); made != "" {
		return modproxy.Listed{}, false
	}
	entry, _ := json.Marshal(map[string]string{"version": version}) // strings do not fail
	return modproxy.Listed{Version: v, Spelling: version, Entry: entry}, err == nil
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
func (listings) decode(text []byte) (*listing, error) {
	header, document, _ := bytes.Cut(text, []byte("\n"))
	var h listingHeader
	if err := json.Unmarshal(header, &h); err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxDocument+1))
	switch {
	case err != nil:
		return nil, err
	case len(plain) > maxDocument: // nothing that was kept is: somebody has changed the store
		return nil, fmt.Errorf("%w: a versions document of more than %d bytes", modproxy.ErrInvalid, maxDocument)
	}
	v, err := modproxy.ParseVersions(plain)
	if err != nil {
		return nil, err
	}
	v.Dropped, v.Time = h.Dropped, h.Time
	return &listing{v, h.Unlisted}, nil
}

const maxDocument = 64 << 20 // bytes of a kept versions document, well over what upstream may send

// Refreshed is what a refresh of a module found. Versions are in the order in which they are listed.
type Refreshed struct {
	Versions int      `json:"versions"`       // listed now
	New      []string `json:"new,omitempty"`  // Next lists them now, and did not when it was last asked
	Gone     []string `json:"gone,omitempty"` // the other way round
	Kept     []string `json:"kept,omitempty"` // of Gone, those that stay listed because their packages are kept
}

// Refresh asks Next for the versions of m now. What [Registry.Forget] forgets of m is forgotten.
//
// Errors: those of Next; [modproxy.RetryLater] when it takes longer than ctx; [modproxy.ErrUnavailable] when offline.
func (r *Registry) Refresh(ctx context.Context, m modproxy.Module) (Refreshed, error) {
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
	r.Forget(k.ModuleVersion)
	r.versions.held.drop(k)
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
