package cache

import (
	"context"
	"time"

	"github.com/modproxy/modproxy"
)

// Versions lists the versions of m:
//
//   - Offline, it lists the versions with stored packages.
//   - A stored document younger than Fresh is served as it is.
//   - Otherwise Versions asks Next, and serves the answer. If Next no longer lists a version, the version stays listed if its
//     package is stored or its source is in the ledger.
//   - If the answer does not come within a second, or the request fails, the stored document is served, up to MaxStale, and
//     marked as Stale.
//   - If the request fails and no document may be served, the list of the first case is served, marked as Stale.
//
// Errors: those of Next, if it fails and none of m's packages is stored; [modproxy.RetryLater] if Next takes longer than three
// seconds or than ctx; [modproxy.NotCached] if no package is stored and the registry is offline.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
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

// StoredVersions lists the versions of m without a request to Next: those of the stored document, regardless of its age, else those with
// stored packages. The error is [fs.ErrNotExist] if nothing is stored.
func (r *Registry) StoredVersions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	k := keyOf(m)
	a, err := r.versions.read(ctx, k)
	switch {
	case err != nil:
		return nil, k.wrap("versions", err)
	case a != nil:
		return a.value.Versions, nil
	}
	held, err := listings{r}.holdings(ctx, m, false, nil)
	if err != nil {
		return nil, k.wrap("versions", err)
	}
	l, err := listings{r}.merge(k, nil, held, noListing(m), time.Now())
	switch {
	case err != nil:
		return nil, k.wrap("versions", err)
	case l == nil:
		return nil, absent(m.String() + ": no version is cached")
	}
	return l.Versions, nil
}

// listing is the versions document of a module, as it is stored and served.
type listing struct {
	*modproxy.Versions
	// unlisted are the versions that upstream does not list, with the time since when, and whose packages are stored or
	// recorded.
	unlisted map[string]time.Time
}

func noListing(m modproxy.Address) *listing { return &listing{Versions: modproxy.NoVersions(m)} }

func (l *listing) size() int64 {
	const each = 160 // bytes of a Listed with its Version
	return int64(len(l.Document) + len(l.Compressed) + each*(len(l.List)+len(l.unlisted)+4))
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

// marked implements source.
func (listings) marked(l *listing, stale bool) *listing {
	v := *l.Versions
	v.Hit, v.Stale = true, stale
	return &listing{&v, l.unlisted}
}
