// Package history records first-seen times of versions, missed requests and downloads.
//
//	times := history.NewFirstSeen(history.FirstSeenConfig{Records: records, Dates: router})
//	reg = &history.Registry{Next: reg, FirstSeen: times} // below the cache
//	downloads := history.NewDownloads(records, nil)
//	reg = &observe.Registry{Next: reg, Observers: []observe.Observer{downloads}} // above the policy
//
// [FirstSeen] has the first-seen times and publication dates of versions. The policy reads them to find the age of a version:
// they are recorded while a registry is asked, before the list is returned. [Demand] has requests for versions that clients
// could not get. [Downloads] has the numbers of downloads and installations. Each is a table in the records of a store. The
// records need no blobs and are never evicted. Several processes may share them.
//
// Invariants: a first-seen time is durable before a list is returned, and a recorded time never becomes later. Losing a record
// never makes a version older. Demand and Downloads never delay or change an answer: they record afterwards, in the
// background. All tables, and the work that waits to be recorded, are limited.
package history

import (
	"context"

	"github.com/modproxy/modproxy"
)

// Registry returns the results of Next, and records the versions in its lists. It is safe for concurrent use.
type Registry struct {
	Next      modproxy.Registry
	FirstSeen *FirstSeen
}

var _ modproxy.Registry = (*Registry)(nil)

// Versions returns the result of Next. A failure to record it is observed, and not returned.
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
