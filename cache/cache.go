// Package cache stores the answers and packages of a registry, and the answers of a catalog.
//
//	reg := cache.New(cache.Config{Next: next, Store: store, Ledger: ledger, Lifetimes: lifetimes, …})
//	versions, err := reg.Versions(ctx, address)
//
// Invariants:
//
//   - A stored answer that has not expired is served without a request to the next registry.
//   - A complete package is served only if its bytes have the
//     digest in its record, and its sum is the sum in the ledger.
//   - A question is sent once, regardless of how many callers wait for the answer. It continues when no caller waits any more.
//   - An unavailable registry does not mean that a module does not exist. Only [modproxy.ErrNotFound] is remembered as missing, and
//     only for a short time.
//   - Several caches may share a store. A record of the store in memory is read again after three seconds.
//
// A package that is read from start to end is hashed on the way. Its last bytes are returned after the hash was verified. Before a
// part of a package is returned, all of it is read. The states of the hash at every 64 KiB then stay in memory, for about 10 GB
// of the last used packages. While they are in memory, only the pieces with the requested part are read, and each piece must lead
// from its state to the next, so that later changes on the disk are found. Opening a large package reads none of it.
//
// A package of a provider can be read during its download (see [modproxy.Partial]), by any number of clients of one download. The
// download continues when they leave. Its last 64 KiB are returned after the package was verified, recorded and stored, if the bytes
// that the client received have its digest. If the download fails, reading ends with its error. A part of the package is returned
// after the package was stored.
//
// Two kinds of content are stored in different ways. Documents are answers that expire: lists of versions, and the answers of a
// catalog. Packages never change, so that a stored package needs no further request.
package cache

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/store"
)

// The kinds of records of a Registry in its store.
const (
	VersionsKind store.Kind = "module-versions" // the versions document of a module
	PackageKind  store.Kind = "module-package"  // the package of one version; needs one blob
)

// Ledger has the record of each version, see package ledger.
type Ledger interface {
	// Lookup returns the valid record of a version. The error is [fs.ErrNotExist] if the version has no record.
	Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error)
	// Add records the content of a version. The error is [modproxy.ErrChanged] if the version has another record.
	Add(ctx context.Context, rec modproxy.Record) error
	// Of yields the last record of each version of a module.
	Of(ctx context.Context, m modproxy.Address) iter.Seq2[modproxy.Record, error]
}

// Gate decides which versions may be downloaded.
type Gate interface {
	// CheckFetch returns an error if a version must not be downloaded: [modproxy.ErrDenied] if the policy denies it.
	CheckFetch(ctx context.Context, v modproxy.Ref) error
}

// Lifetimes are how long answers count.
type Lifetimes struct {
	Fresh    time.Duration // how long an answer is served without another request
	MaxStale time.Duration // how old an answer may be that is served while the registry is slow or unavailable
	Missing  time.Duration // how long an [modproxy.ErrNotFound] is remembered
}

// Config configures a [Registry].
type Config struct {
	// Next answers requests for content that is not stored. When it returns a package, Ledger must have its record: ledger.Registry
	// records each package. The cache does not store a package without a record in the ledger. nil means offline: nothing is
	// requested, and stored answers are served regardless of their age.
	Next   modproxy.Registry
	Store  *store.Store
	Ledger Ledger // may be nil for List and Discard
	// Gate is called when a download has its slot. The layers above have checked the policy when the client sent its request,
	// but the download may have waited for long. nil allows everything.
	Gate Gate

	// Origin returns the server that lists the versions of an address. While a server is slow, clients do not wait for lists from it. nil
	// means the host of the address.
	Origin func(modproxy.Address) string

	Lifetimes                  // of versions documents; Missing also of missing versions and failed downloads
	FetchTimeout time.Duration // the timeout of one download
	Fetches      int           // downloads at the same time; further ones wait
	// Zips and ZipTimeout are Fetches and FetchTimeout for the packages of providers for one platform, which are zip archives;
	// zero means the same values. These packages are large, so they have slots of their own.
	Zips       int
	ZipTimeout time.Duration
	// MaxVersions bounds the bytes of the stored versions documents; for a while there may be an eighth more. Documents of
	// modules without a stored package are removed first, then those with the oldest request. Zero means no bound.
	MaxVersions int64
	// Observe receives events, during the work and from many goroutines at once. It may be nil.
	Observe func(Event)
}

// Registry stores the answers and packages of Next. It is safe for concurrent use. [New] makes one.
type Registry struct {
	Config // not changed

	asking   *flight.Pool // requests for versions and locations
	fetching *flight.Pool // downloads of packages
	slots    *downloadSlots
	whole    atomic.Bool // EndPartial was called

	versions  documents[key, *listing]
	packages  fetches[key, *StoredPackage] // of modules, and releases of providers
	zips      fetches[key, *StoredPackage] // of providers for one platform
	locations flight.Group[key, modproxy.Location]

	renewals flight.Group[key, *StoredPackage] // of releases

	located      memory.Cache[key, modproxy.Location] // of packages that are being downloaded
	records      memory.Cache[key, *StoredPackage]    // of packages, for rereadAfter
	missing      memory.Cache[key, error]             // versions that Next does not have
	gone         memory.Cache[key, bool]              // versions that their recorded source does not have either; for goneFor
	refetched    memory.Cache[key, bool]              // releases that were requested again, for renewPause
	offlineLists memory.Cache[key, *listing]          // the lists of modules offline, for rereadAfter
	offlineCalls flight.Group[key, *listing]          // that make lists offline
}

var _ modproxy.Registry = (*Registry)(nil)

const (
	requestTimeout = time.Minute             // of one request for versions or a location
	clientWait     = 3 * time.Second         // how long a client waits for Next or the store; then it must retry
	rereadAfter    = 3 * time.Second         // how long a record in memory counts
	locateWithin   = 3500 * time.Millisecond // for Location and the download that it starts: some clients wait five seconds
	closeGrace     = time.Second             // for background work to notice its end
	maxHold        = 24 * time.Hour          // the longest RetryLater that counts
	goneFor        = 24 * time.Hour          // how long a withdrawn version is not listed after its source had no such version

	maxAsking   = 1024 // running requests
	maxFetching = 1024 // downloads that run or wait for a slot
)

// New returns a Registry that stores in c.Store.
func New(c Config) *Registry {
	r := &Registry{Config: c}
	r.asking = flight.NewPool(maxAsking)
	r.fetching = flight.NewPool(2 * maxFetching) // downloads beyond maxFetching fail while they wait for a slot
	r.locations.Pool, r.locations.PerClient = r.asking, true
	r.renewals.Pool = r.fetching
	r.offlineCalls.Pool = r.asking
	r.slots = newDownloadSlots(r.Fetches)
	r.versions = documents[key, *listing]{
		source: listings{r}, op: "versions", store: r.Store, maxMemory: maxListMemory, work: r.asking, observe: r.observe,
		lifetimes: r.Lifetimes, limit: r.MaxVersions, trimmed: VersionsTrimmed, fallback: listings{r}.offline,
		origin: r.originOf,
	}
	r.versions.start()
	r.offlineLists.Limit = maxListMemory
	r.packages = fetches[key, *StoredPackage]{
		source: packages{r}, work: r.fetching, slots: r.slots, timeout: r.FetchTimeout, pause: r.Missing, observe: r.observe,
	}
	r.zips = fetches[key, *StoredPackage]{
		source: packages{r}, work: r.fetching, slots: newDownloadSlots(cmp.Or(r.Zips, r.Fetches)), timeout: cmp.Or(r.ZipTimeout, r.FetchTimeout),
		pause: r.Missing, observe: r.observe,
	}
	r.packages.flights.Pool, r.zips.flights.Pool = r.fetching, r.fetching
	return r
}

// originOf returns the server that lists the versions of k.
func (r *Registry) originOf(k key) string {
	if r.Origin == nil {
		return k.registry()
	}
	return r.Origin(k.Address)
}

// fetches returns the downloads that k belongs to.
func (r *Registry) fetches(k key) *fetches[key, *StoredPackage] {
	if k.IsArchive() {
		return &r.zips
	}
	return &r.packages
}

// Close waits for work in the background. If ctx ends before, Close ends the work, and returns an error. Afterwards nothing is
// requested from Next; stored content is still served. The caller closes the store after Close.
func (r *Registry) Close(ctx context.Context) error {
	return closeAll(ctx, r.asking, r.fetching)
}

// EndBackground ends work that no client waits for, now and later.
func (r *Registry) EndBackground() {
	r.asking.EndBackground()
	r.fetching.EndBackground()
}

// EndPartial makes Package wait for the whole package of a provider, also for one that is being downloaded. A caller that has a part
// already gets the rest.
func (r *Registry) EndPartial() { r.whole.Store(true) }

// Fetching returns the running downloads, each with a channel that is closed at its end.
func (r *Registry) Fetching() map[modproxy.Ref]<-chan struct{} {
	all := map[modproxy.Ref]<-chan struct{}{}
	for _, f := range []*fetches[key, *StoredPackage]{&r.packages, &r.zips} {
		for k, c := range f.flights.Running() {
			all[k.Ref] = c.Done()
		}
	}
	return all
}

// Downloads returns the versions that are being downloaded or wait for their turn, with the times at which clients first wanted them.
func (r *Registry) Downloads() map[modproxy.Ref]time.Time {
	all := map[modproxy.Ref]time.Time{}
	for _, f := range []*fetches[key, *StoredPackage]{&r.packages, &r.zips} {
		for k, c := range f.flights.Running() {
			all[k.Ref] = c.Began()
		}
	}
	return all
}

// Forget drops a version from memory, so that the next request reads its record again, and asks Next if necessary. An empty
// version means every version of the module, and the zero Ref means everything. The release of a provider includes its packages
// for all platforms.
func (r *Registry) Forget(v modproxy.Ref) {
	match := func(k key) bool { return v.Address == (modproxy.Address{}) || concerns(v, k.Ref) }
	r.located.Remove(match)
	r.records.Remove(match)
	r.missing.Remove(match)
	r.gone.Remove(match)
	r.refetched.Remove(match)
	r.packages.failed.Remove(match)
	r.zips.failed.Remove(match)
	r.offlineLists.Remove(func(k key) bool { return v.Address == (modproxy.Address{}) || k.Address == v.Address })
	if v.Version == "" {
		r.versions.missing.Remove(match)
	}
}

// concerns reports whether v includes stored: an empty version means every version of its module, and the release of a provider
// includes its packages for all platforms.
func concerns(v, stored modproxy.Ref) bool {
	return stored.Address == v.Address && (v.Version == "" || stored == v || stored.IsArchive() && stored.Base() == v)
}

// Kind is the kind of an [Event]. It can be the name of a metric's label.
type Kind string

const (
	VersionsAsked   Kind = "versions_asked"  // a request to Next; Duration, Err
	LocationAsked   Kind = "location_asked"  // a request to Next; Duration, Err
	FetchStarted    Kind = "fetch_started"   // the download has its slot
	FetchEnded      Kind = "fetch_ended"     // Duration, Bytes, Err
	StaleServed     Kind = "stale_served"    // an answer older than Fresh was served
	VersionDropped  Kind = "version_dropped" // upstream does not list a version that is stored or recorded, and stays listed
	VersionListed   Kind = "version_listed"  // upstream lists such a version again
	VersionsTrimmed Kind = "versions_gone"   // versions documents were removed for the sake of MaxVersions; Bytes
	DetailsAsked    Kind = "details_asked"   // a request to Next of a Catalog, as the next three; Duration, Err
	HistoryAsked    Kind = "history_asked"
	DownloadsAsked  Kind = "downloads_asked"
	ListAsked       Kind = "list_asked"
	CatalogTrimmed  Kind = "catalog_gone"     // details or histories were removed for the sake of MaxKept; Bytes
	LedgerDisagrees Kind = "ledger_disagrees" // a stored package differs from its record in the ledger, and is not served; Err
	// LedgerBehind: a request found a stored package without a record in the ledger, which is then an older copy of itself. The
	// cache has added the record to the ledger, or failed with Err.
	LedgerBehind Kind = "ledger_behind"
	StoreFailed  Kind = "index_failed" // an answer was served but could not be stored or read; Err
)

// Event is something that happened in a [Registry] or a [Catalog]. Fields that its Kind does not mention are zero.
type Event struct {
	Kind     Kind
	Module   modproxy.Address
	Version  string // empty for questions about versions
	Duration time.Duration
	Bytes    int64
	Err      error // nil means success
}

func (r *Registry) observe(e Event) {
	if r.Observe != nil {
		r.Observe(e)
	}
}

// key is a module, or one version of it.
type key struct{ modproxy.Ref }

func keyOf(m modproxy.Address) key { return key{modproxy.Ref{Address: m}} }

// ref returns the name of the record of k.
func (k key) ref() store.Ref {
	name := k.Host + "/" + k.Namespace + "/" + k.Name + "/" + k.System
	if k.Version == "" {
		return store.Ref{Kind: VersionsKind, Key: name}
	}
	return store.Ref{Kind: PackageKind, Key: name + "/" + k.FullVersion()}
}

func (k key) registry() string  { return k.Host }
func (k key) publisher() string { return k.Host + "/" + k.Namespace }

func (k key) event(kind Kind, took time.Duration, err error) Event {
	return Event{Kind: kind, Module: k.Address, Version: k.FullVersion(), Duration: took, Err: err}
}

func (k key) wrap(op string, err error) error { return modproxy.Wrap(op, k.Ref, err) }

// notCached returns the error for a package that is not stored while the registry is offline.
func (r *Registry) notCached(ctx context.Context, k key) error {
	_, err := r.Ledger.Lookup(ctx, k.Ref)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &modproxy.NotCached{Ref: k.Ref, Lost: err == nil}
}
