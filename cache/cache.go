// Package cache is a registry that keeps what another registry answers, and a catalog that keeps what another catalog does.
//
// Invariant: what is kept is served without asking for it again, and a package is served to its end only if its bytes
// are those that its record names. A kept package whose sum is not the ledger's is not served.
//
// A package that is read from its start to its end is hashed on the way, and its last bytes are given when the hash is right.
// Before a part of it is given, all of it is read. The states of the hash at every 64 KiB are remembered then, of some 10 GB of
// packages that were used last: while they are, only the pieces are read that have the part, and each must lead from its state to
// the next, so that what has changed on the disk since is found. To open a large package reads nothing of it.
//
// A package of a provider can be read while it comes (see [modproxy.Arrival]), by any number of clients and from one fetch, which
// they do not end. Its last 64 KiB are given when it has been verified, recorded and kept, and what the client was given has
// its digest; when it fails, reading ends with the error. A part of it is given when it is kept.
//
// A question is asked once, however many wait for its answer, and it goes on when none of them waits any more.
// Trouble upstream is not absence: only [modproxy.ErrNotFound] is remembered as missing, and briefly.
//
// Several caches may share a store. A record that is remembered in memory is read again after three seconds.
//
// The parts do not know modules: documents keeps answers that get old, and fetches brings what never changes.
// [Registry] is made of one of each, and [Catalog] of documents.
package cache

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/store"
)

// The kinds of records that a Registry keeps in its store.
const (
	VersionsKind store.Kind = "module-versions" // the versions document of a module
	PackageKind  store.Kind = "module-package"  // the package of one version; needs one blob
)

// Ledger knows what every version is, see package ledger.
type Ledger interface {
	// Lookup returns the record that counts for a version. Its error is [fs.ErrNotExist] when there is none.
	Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error)
	// Add records the first sight of a version. Its error is [modproxy.ErrChanged] when there is another record.
	Add(ctx context.Context, rec modproxy.Record) error
	// Of yields the last record of each version of a module.
	Of(ctx context.Context, m modproxy.Address) iter.Seq2[modproxy.Record, error]
}

// Gate says what may be fetched.
type Gate interface {
	// CheckFetch returns an error if a version must not be fetched: [modproxy.ErrDenied] if it is refused.
	CheckFetch(ctx context.Context, v modproxy.Ref) error
}

// Registry keeps the answers and packages of Next. Its fields are set before the first question. It is safe for
// concurrent use.
type Registry struct {
	// Next is asked for what is not kept. What it gives is in Ledger by then. Nil means offline: nobody is asked, and
	// what is kept is served whatever its age.
	Next   modproxy.Registry
	Store  *store.Store
	Ledger Ledger // may be nil for List and Discard
	Gate   Gate   // asked again when a fetch has its turn, before which it may have waited long; nil refuses nothing

	Fresh        time.Duration // how long a versions document is served without asking again
	MaxStale     time.Duration // how long after it was asked for a document is served while Next fails; then as without one
	Missing      time.Duration // how long a not found, or a failed fetch, is remembered
	FetchTimeout time.Duration // ends one fetch of a package
	Fetches      int           // packages fetched at the same time; further ones wait their turn
	// Zips and ZipTimeout are Fetches and FetchTimeout for the packages of providers for one platform; zero stands for these. They
	// are fetched beside the others: they are large, and would have them wait.
	Zips       int
	ZipTimeout time.Duration
	// MaxVersions is how many bytes the kept versions documents may have, and for a while an eighth more. Those of
	// modules without a kept package go first, then those that were asked for longest ago. Zero: any number.
	MaxVersions int64
	// Observe is told what happens, in the middle of the work and by many goroutines at once. Nil is fine.
	Observe func(Event)

	once     sync.Once
	asking   *flight.Pool // questions for versions and locations
	fetching *flight.Pool // fetches of packages
	turns    *turns

	versions  documents[key, *listing]
	packages  fetches[key, *Kept] // of modules, and releases of providers
	zips      fetches[key, *Kept] // of providers for one platform
	locations flight.Group[key, modproxy.Location]

	renewals flight.Group[key, *Kept] // of releases

	located memory.Cache[key, modproxy.Location] // of packages that are being fetched
	records memory.Cache[key, *Kept]             // of packages, for recallFor
	missing memory.Cache[key, error]             // versions that Next does not have
	gone    memory.Cache[key, bool]              // versions that their recorded source does not have, either; for goneFor
	looked  memory.Cache[key, bool]              // releases that were asked for again, for renewPause
	offered memory.Cache[key, *listing]          // what is listed offline, for recallFor
	offers  flight.Group[key, *listing]          // what is to be listed offline
}

var _ modproxy.Registry = (*Registry)(nil)

const (
	askTimeout = time.Minute             // of one detached question for versions or a location
	patience   = 3 * time.Second         // how long a client waits for Next, or the store; then it has to try again
	recallFor  = 3 * time.Second         // how long a record counts without being read again
	tellWithin = 3500 * time.Millisecond // for Location, with the fetch that it starts: some clients give it five seconds
	closeGrace = time.Second             // for background work to notice that it was ended
	maxHold    = 24 * time.Hour          // the longest RetryLater that is obeyed
	goneFor    = 24 * time.Hour          // how long a withdrawn version that could not be found is not listed

	maxAsking   = 1024 // questions under way
	maxFetching = 1024 // fetches under way and waiting their turn
)

func (r *Registry) start() {
	r.asking = flight.NewPool(maxAsking)
	r.fetching = flight.NewPool(2 * maxFetching) // those beyond maxFetching find no turn to wait for
	r.locations.Pool, r.locations.PerClient = r.asking, true
	r.renewals.Pool = r.fetching
	r.offers.Pool = r.asking
	r.turns = newTurns(r.Fetches)
	r.versions = documents[key, *listing]{
		source: listings{r}, op: "versions", store: r.Store, memory: maxHot, work: r.asking, observe: r.observe,
		fresh: r.Fresh, maxStale: r.MaxStale, missesFor: r.Missing, limit: r.MaxVersions, trimmed: VersionsTrimmed, spare: listings{r}.offline,
	}
	r.versions.start()
	r.offered.Limit = maxHot
	r.packages = fetches[key, *Kept]{
		source: packages{r}, work: r.fetching, turns: r.turns, timeout: r.FetchTimeout, pause: r.Missing, observe: r.observe,
	}
	r.zips = fetches[key, *Kept]{
		source: packages{r}, work: r.fetching, turns: newTurns(cmp.Or(r.Zips, r.Fetches)), timeout: cmp.Or(r.ZipTimeout, r.FetchTimeout),
		pause: r.Missing, observe: r.observe,
	}
	r.packages.flights.Pool, r.zips.flights.Pool = r.fetching, r.fetching
}

// fetches returns those that k is one of.
func (r *Registry) fetches(k key) *fetches[key, *Kept] {
	if k.IsArchive() {
		return &r.zips
	}
	return &r.packages
}

// Close waits for what goes on in the background, and ends it when ctx ends, which is an error. Nothing is asked of
// Next afterwards; what is kept is still served. The store is closed after it.
func (r *Registry) Close(ctx context.Context) error {
	r.once.Do(r.start)
	return closeAll(ctx, r.asking, r.fetching)
}

// EndBackground ends what no client waits for, and what is begun so later.
func (r *Registry) EndBackground() {
	r.once.Do(r.start)
	r.asking.EndBackground()
	r.fetching.EndBackground()
}

// Fetching returns the fetches that are under way, each with a channel that is closed when the fetch has ended.
func (r *Registry) Fetching() map[modproxy.Ref]<-chan struct{} {
	r.once.Do(r.start)
	all := map[modproxy.Ref]<-chan struct{}{}
	for _, f := range []*fetches[key, *Kept]{&r.packages, &r.zips} {
		for k, c := range f.flights.Running() {
			all[k.Ref] = c.Done()
		}
	}
	return all
}

// Forget drops what is remembered in memory of a version, so that the next question reads its record again, and asks
// Next if it must. An empty version stands for every version of the module, and the zero value for everything; the release of a
// provider stands for its packages for all platforms, too.
func (r *Registry) Forget(v modproxy.Ref) {
	r.once.Do(r.start)
	match := func(k key) bool { return v.Address == (modproxy.Address{}) || concerns(v, k.Ref) }
	r.located.Remove(match)
	r.records.Remove(match)
	r.missing.Remove(match)
	r.gone.Remove(match)
	r.looked.Remove(match)
	r.packages.failed.Remove(match)
	r.zips.failed.Remove(match)
	r.offered.Remove(func(k key) bool { return v.Address == (modproxy.Address{}) || k.Address == v.Address })
	if v.Version == "" {
		r.versions.missing.Remove(match)
	}
}

// concerns reports whether what is done with v is done with what is kept as kept: an empty version stands for every version of
// its module, and the release of a provider for its packages for all platforms, too.
func concerns(v, kept modproxy.Ref) bool {
	return kept.Address == v.Address && (v.Version == "" || kept == v || kept.IsArchive() && kept.Base() == v)
}

// Kind says what an [Event] tells. It is fit for the name of a metric's label.
type Kind string

const (
	VersionsAsked   Kind = "versions_asked"  // Next was asked; Duration, Err
	LocationAsked   Kind = "location_asked"  // Next was asked; Duration, Err
	FetchStarted    Kind = "fetch_started"   // after the fetch had its turn
	FetchEnded      Kind = "fetch_ended"     // Duration, Bytes, Err
	StaleServed     Kind = "stale_served"    // an answer older than Fresh was served
	VersionDropped  Kind = "version_dropped" // upstream does not list a version that is kept or recorded, and stays listed
	VersionListed   Kind = "version_listed"  // upstream lists such a version again
	VersionsTrimmed Kind = "versions_gone"   // versions documents were removed to keep to MaxVersions; Bytes
	DetailsAsked    Kind = "details_asked"   // Next of a Catalog was asked, here and in the next three; Duration, Err
	HistoryAsked    Kind = "history_asked"
	DownloadsAsked  Kind = "downloads_asked"
	ListAsked       Kind = "list_asked"
	CatalogTrimmed  Kind = "catalog_gone"     // details or histories were removed to keep to MaxKept; Bytes
	LedgerDisagrees Kind = "ledger_disagrees" // a kept package is not what the ledger says, and is not served; Err
	LedgerBehind    Kind = "ledger_behind"    // the ledger did not know a kept package, and does now; Err
	StoreFailed     Kind = "index_failed"     // an answer was served but could not be kept or read; Err
)

// Event is something that happened in a [Registry] or a [Catalog]. Fields that its Kind does not mention are zero.
type Event struct {
	Kind     Kind
	Module   modproxy.Address
	Version  string // empty for questions about versions
	Duration time.Duration
	Bytes    int64
	Err      error // nil: it went well
}

func (r *Registry) observe(e Event) {
	if r.Observe != nil {
		r.Observe(e)
	}
}

// key is a module, or one version of it: what a question is about.
type key struct{ modproxy.Ref }

func keyOf(m modproxy.Address) key { return key{modproxy.Ref{Address: m}} }

// ref names the record of k.
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

// notKept returns the error for a package that is not kept while nobody is asked.
func (r *Registry) notKept(ctx context.Context, k key) error {
	_, err := r.Ledger.Lookup(ctx, k.Ref)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &modproxy.NotKept{Ref: k.Ref, Lost: err == nil}
}
