package cache

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// offline returns the versions with stored packages, with the entries of upstream. Concurrent callers share one list.
func (r listings) offline(ctx context.Context, k key) (*listing, error) {
	if l, ok := r.offlineLists.Get(k); ok {
		return l, nil
	}
	call, err := r.offlineCalls.Join(ctx, k, func(ctx context.Context) (*listing, error) {
		if l, ok := r.offlineLists.Get(k); ok {
			return l, nil
		}
		return r.makeOffline(ctx, k)
	})
	if err != nil { // the pool is full or closed
		return r.makeOffline(ctx, k)
	}
	return call.Wait(ctx)
}

// makeOffline makes the list of offline.
func (r listings) makeOffline(ctx context.Context, k key) (*listing, error) {
	remember := r.offlineLists.Begin(k)
	before := noListing(k.Address)
	switch a, err := r.versions.read(ctx, k); {
	case err != nil:
		return nil, err
	case a != nil:
		before = a.value
	}
	held, err := r.holdings(ctx, k.Address, true, nil)
	if err != nil {
		return nil, settleIn(ctx, err)
	}
	platforms := map[string][]modproxy.Platform{}
	var more []modproxy.Listed
	for _, h := range held {
		if entry, ok := h.entry(); ok {
			platforms[h.version] = h.platforms
			more = append(more, entry) // upstream's entry has precedence
		}
	}
	if len(more) == 0 {
		return nil, &modproxy.NotCached{Ref: k.Ref}
	}
	var listed *modproxy.Versions
	switch k.Kind() {
	case modproxy.Provider:
		listed, err = before.OfPlatforms(platforms)
	case modproxy.Module:
		listed, err = before.Only(func(entry modproxy.Listed) bool {
			_, isHeld := platforms[entry.Version.String()]
			return isHeld
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
	l := r.marked(&listing{Versions: v}, true)
	if v != listed { // the time at which the registry listed the others is not known
		l.Time = time.Now()
	}
	remember(l, rereadAfter, l.size())
	return l, nil
}

// holding is a version that is stored or recorded.
type holding struct {
	version   string
	platforms []modproxy.Platform // of a provider: those with a stored package, or with a package in the release
}

// holdings returns the versions of m with stored and valid packages; for a provider, those with a release and the package for a
// platform. For the latter, records are sufficient unless close is set. It omits the versions in skip. On error it returns the
// versions that it has found.
func (r listings) holdings(ctx context.Context, m modproxy.Address, close bool, skip map[string]bool) (list []*holding, err error) {
	of := map[string]*holding{}
	for p, err := range r.all(ctx, m) {
		platform, isZip := p.Platform()
		if !isZip && !p.IsListed() || skip[p.Version] || isZip && of[p.Version] == nil { // a release precedes its archives
			continue
		}
		if close || !isZip || err != nil {
			p, err = r.compare(ctx, p, err)
		}
		if close && err == nil {
			err = r.blobExists(ctx, p)
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
	return slices.DeleteFunc(list, func(h *holding) bool { return !h.isInstallable(m) }), nil
}

// isInstallable reports whether clients can install h, a version of m: a version of a provider needs a platform.
func (h *holding) isInstallable(m modproxy.Address) bool {
	switch m.Kind() {
	case modproxy.Provider:
		return len(h.platforms) > 0
	case modproxy.Module:
	}
	return true
}

// entry returns the list entry of h. ok reports whether clients may request its version.
func (h *holding) entry() (modproxy.Listed, bool) {
	v, err := modproxy.ParseVersion(h.version)
	entry, _ := json.Marshal(modproxy.Release{Version: h.version, Platforms: h.platforms}) // without an error for strings
	return modproxy.Listed{Version: v, Spelling: h.version, Entry: entry}, err == nil
}

// recorded returns the versions of m that can be downloaded again from their source in the ledger. It omits versions that their
// source did not have recently, and the versions in skip.
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
		if rec.Zips != "" {
			zips, _ := rec.Zips.All() // the ledger has parsed them
			h.platforms = slices.SortedFunc(maps.Keys(zips), func(a, b modproxy.Platform) int { return strings.Compare(a.String(), b.String()) })
		}
		if h.isInstallable(m) {
			list = append(list, h)
		}
	}
	return list, nil
}
