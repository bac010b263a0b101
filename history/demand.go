package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// The kinds of the records of a [Demand].
const (
	PendingKind store.Kind = "module-request" // versions that wait for approval
	MissingKind store.Kind = "module-missing" // versions and modules that are not cached while modproxy is offline
)

// Request describes the requests for a version, or for the versions of a module if Version is empty.
type Request struct {
	modproxy.Ref           // in the spelling of the first request
	First        time.Time `json:"first"`
	Last         time.Time `json:"last"`
	Count        int       `json:"count"`
	Askers       []string  `json:"askers"`            // the shown names of the first 16 clients, each once
	Groups       []string  `json:"groups"`            // of the last client
	Refused      string    `json:"refused,omitempty"` // set by Misses: the ETag of the last list that had no version for a client
}

// MarshalJSON implements [json.Marshaler]. The version has its variant, as [modproxy.Ref.FullVersion] returns it.
func (r Request) MarshalJSON() ([]byte, error) {
	type stored Request // without this method
	s := stored(r)
	s.Version = r.FullVersion()
	return json.Marshal(s)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *Request) UnmarshalJSON(text []byte) error {
	type stored Request // without this method
	s := (*stored)(r)
	err := json.Unmarshal(text, s)
	s.Ref = s.At(s.Version)
	return err
}

// Demand is a table of requests for versions that clients could not get. Its [store.Kind] says why: [PendingKind] or
// [MissingKind]. Operators read it to approve or provide the versions. It is safe for concurrent use. Several processes may
// share the records.
//
// At most 1024 versions wait to be recorded. Demand drops the others and reports it. They are recorded when they are requested
// again. If there are more than 10,000 records, Demand removes those with the oldest last request.
type Demand struct {
	table   store.Table[Request]
	observe func(error)

	writing sync.Mutex // held while requests are written to the store

	mu         sync.Mutex
	unsaved    map[modproxy.Ref]Request // not recorded yet, by folded version
	overflowed bool                     // a request was dropped since all others were recorded
	recorded   int                      // approximate number of records
	counted    bool
}

const (
	maxAskers   = 16
	maxAsker    = 256             // bytes of one name
	maxUnsaved  = 1024            // versions waiting to be recorded
	maxRequests = 10_000          // recorded versions
	trimmed     = maxRequests / 8 // number of records that are removed at once
	writeEvery  = time.Second
	maxSaved    = 32 // versions each time: every one is a change of the store, which is flushed
)

// NewDemand returns the table of the requests of a kind. Run records them. observe, if not nil, is called when requests could not
// be recorded and will be retried, and for the first dropped version.
func NewDemand(records store.Records, kind store.Kind, observe func(error)) *Demand {
	if observe == nil {
		observe = func(error) {}
	}
	return &Demand{
		table: store.Table[Request]{Records: records, Kind: kind, Belongs: func(key string, r Request) bool {
			return r.CheckAddress() == nil && fold(r.Ref).String() == key
		}},
		observe: observe, unsaved: map[modproxy.Ref]Request{},
	}
}

// Add adds one request for a version. It does not wait for the store.
func (d *Demand) Add(v modproxy.Ref, asker modproxy.Client) { d.add(v, asker, "") }

func (d *Demand) add(v modproxy.Ref, asker modproxy.Client, refused string) {
	now := time.Now().UTC()
	r := Request{Ref: v, First: now, Last: now, Count: 1, Groups: asker.Groups, Refused: refused}
	if asker.DisplayName != "" && len(asker.DisplayName) <= maxAsker {
		r.Askers = []string{asker.DisplayName}
	}
	d.remember(fold(v), r)
}

// remember adds requests for a version to those that wait to be recorded.
func (d *Demand) remember(key modproxy.Ref, r Request) {
	if !d.hold(key, r) {
		d.observe(fmt.Errorf("more than %d versions wait to be recorded: %s and others are not recorded until they are requested again",
			maxUnsaved, r.Ref))
	}
}

// hold adds r to the requests that wait to be recorded. It returns false if r is the first dropped request.
func (d *Demand) hold(key modproxy.Ref, r Request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was, known := d.unsaved[key]
	switch {
	case known:
		r = was.with(r)
	case len(d.unsaved) >= maxUnsaved:
		told := d.overflowed
		d.overflowed = true
		return told
	}
	d.unsaved[key] = r
	return true
}

// with returns the sum of r and other, which are requests for the same version.
func (r Request) with(other Request) Request {
	if other.First.Before(r.First) {
		r, other = other, r
	}
	r.Count += other.Count
	if !other.Last.Before(r.Last) {
		r.Last, r.Groups, r.Refused = other.Last, other.Groups, other.Refused
	}
	r.Askers = slices.Clone(r.Askers)
	for _, asker := range other.Askers {
		if len(r.Askers) < maxAskers && !slices.Contains(r.Askers, asker) {
			r.Askers = append(r.Askers, asker)
		}
	}
	return r
}

// Run records requests, up to 32 versions every second until ctx ends, and then the rest. That last write has no deadline. Call
// Run once.
func (d *Demand) Run(ctx context.Context) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for most := maxSaved; most < maxUnsaved; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			most = maxUnsaved
		}
		if err := d.write(context.WithoutCancel(ctx), most); err != nil {
			d.observe(err)
		}
	}
}

// Write records all requests that Add has added so far. It returns after all of them are recorded, or with an error.
func (d *Demand) Write(ctx context.Context) error { return d.write(ctx, maxUnsaved) }

func (d *Demand) write(ctx context.Context, most int) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	var errs []error
	added := 0
	for key, more := range d.take(most) {
		isNew, err := d.record(ctx, key, more)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", more.Ref, err))
			d.remember(key, more)
		case isNew:
			added++
		}
	}
	if added > 0 {
		errs = append(errs, d.trim(ctx, added))
	}
	return errors.Join(errs...)
}

// take removes and returns up to most requests that wait to be recorded.
func (d *Demand) take(most int) map[modproxy.Ref]Request {
	d.mu.Lock()
	defer d.mu.Unlock()
	some := map[modproxy.Ref]Request{}
	for key, request := range d.unsaved {
		if len(some) == most {
			break
		}
		some[key] = request
		delete(d.unsaved, key)
	}
	d.overflowed = d.overflowed && len(d.unsaved) > 0
	return some
}

// record adds requests for one version to the recorded ones.
func (d *Demand) record(ctx context.Context, key modproxy.Ref, more Request) (isNew bool, err error) {
	_, err = d.table.Update(ctx, key.String(), func(row *store.Row[Request]) {
		if isNew = !row.Exists; isNew || row.Damaged {
			row.Value = more
		} else {
			row.Value = row.Value.with(more)
		}
	})
	return isNew && err == nil, err
}

// trim removes the records with the oldest last request if there are too many records.
func (d *Demand) trim(ctx context.Context, added int) error {
	d.mu.Lock()
	d.recorded += added
	enough := d.counted && d.recorded <= maxRequests
	d.mu.Unlock()
	if enough {
		return nil
	}
	left, err := d.table.Trim(ctx, maxRequests, trimmed, func(r Request) time.Time { return r.Last })
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recorded, d.counted = left, true
	return nil
}

// List yields the recorded requests, by module and version, without damaged ones. An error ends the sequence.
func (d *Demand) List(ctx context.Context) iter.Seq2[Request, error] {
	return func(yield func(Request, error) bool) {
		for row, err := range d.table.List(ctx, "") {
			if row.Damaged {
				continue
			}
			if !yield(row.Value, err) || err != nil {
				return
			}
		}
	}
}

// Clear removes the record of a version, and returns the number of removed records. If v.Version is empty, it removes the
// records of all versions of the module, and that of the module itself. If v is zero, it removes all records.
func (d *Demand) Clear(ctx context.Context, v modproxy.Ref) (n int, err error) {
	if err := d.Write(ctx); err != nil {
		return 0, err
	}
	for row, err := range d.table.List(ctx, "") {
		switch {
		case err != nil:
			return n, err
		case v != modproxy.Ref{} && (row.Damaged || !row.Value.Of(v)):
			continue
		}
		deleted, err := d.table.Delete(ctx, row)
		if err != nil {
			return n, err
		}
		if deleted { // else a client has requested it again
			n++
		}
	}
	return n, nil
}

// Of reports whether r is about v. If v.Version is empty, it reports whether r is about the module of v, or one of its versions.
func (r *Request) Of(v modproxy.Ref) bool {
	return r.Address.Folded() == v.Address.Folded() && (v.Version == "" || fold(r.Ref) == fold(v))
}

// fold returns the key of the requests for v: the address is in lower case, and variants have the version from which they are
// derived.
func fold(v modproxy.Ref) modproxy.Ref {
	return v.Base().Folded()
}
