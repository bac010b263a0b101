// Package history records first-seen times of versions, missed requests and downloads.
//
//	times := history.NewFirstSeen(history.FirstSeenConfig{Records: records, Dates: router})
//	reg = &history.Registry{Next: reg, FirstSeen: times} // below the cache
//	downloads := history.NewDownloads(records, nil)
//	reg = &observe.Registry{Next: reg, Observers: []observe.Observer{downloads}} // above the policy
//
// [FirstSeen] has the first-seen times and publication dates of versions. The policy reads them to find the age of a version:
// [Registry] records them when a registry has returned a list, before the caller receives the list. [Demand] has requests for
// versions that clients could not get. [Downloads] has the numbers of downloads and installations. Each is a table in the
// records of a store. The records need no blobs and are never evicted. Several processes may share them.
//
// Invariants: when Registry returns a list, the first-seen times of its versions are durable, or FirstSeenConfig.Observe was
// called with the reason. A version without a recorded time is too young for every rule with a minimum age. A list that could not
// be recorded is recorded, with its own time, before the next list of the module. If the process ends before, the next list takes
// its place: if no list was recorded earlier, versions that were added between the two lists then look as old as the module, and
// the module newer than it is. A recorded first-seen time never becomes later. Losing a record does not make a version older, if
// the ledger has a version of the module. Demand and Downloads never delay or change an answer: they record
// afterwards, in the background. All tables, and the work that waits to be recorded, are limited.
//
// [FirstSeen] implements policy.FirstSeen, and [Downloads] implements catalog.Counts.
package history

import (
	"context"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// Tables are the kinds of records of this package. Their content exists nowhere else.
var Tables = []store.Kind{FirstSeenKind, PendingKind, MissingKind, DownloadsKind, ProgramsKind}

// Registry returns the results of Next, and records the versions in its lists. It is safe for concurrent use.
type Registry struct {
	Next      modproxy.Registry
	FirstSeen *FirstSeen
}

var _ modproxy.Registry = (*Registry)(nil)

// Versions returns the result of Next after recording its versions: see [FirstSeen.See]. If they cannot be recorded, it calls
// FirstSeenConfig.Observe and returns the list all the same.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	v, err := r.Next.Versions(ctx, m)
	if err == nil {
		r.FirstSeen.See(ctx, m, v)
	}
	return v, err
}

// Location returns the result of Next.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	return r.Next.Location(ctx, v)
}

// Package returns the result of Next.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	return r.Next.Package(ctx, v)
}
