// Package requests records requests for versions that clients could not get.
//
// Operators read the records to approve or provide these versions.
//
//	log := &requests.Log{Records: records, Kind: requests.Missing}
//	go log.Run(ctx)
//	log.See(v, modproxy.AskerOf(ctx))
//
// Invariant: recording never delays or changes an answer. The number of records, and of requests in memory, is limited.
package requests

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

// The kinds of a Log's records in its store.
const (
	Pending store.Kind = "module-request" // versions that wait for approval
	Missing store.Kind = "module-missing" // versions and modules that are not cached while modproxy is offline
)

// Request describes the requests for a version, or for the versions of a module if Version is empty.
type Request struct {
	modproxy.Ref           // in the spelling of the first request
	First        time.Time `json:"first"`
	Last         time.Time `json:"last"`
	Count        int       `json:"count"`
	Askers       []string  `json:"askers"`            // the first maxAskers clients, each once
	Groups       []string  `json:"groups"`            // of the last client
	Refused      string    `json:"refused,omitempty"` // the ETag of the last list from which the client took no version
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

// Log records requests of one kind. It is safe for concurrent use. Several processes may share the records.
//
// If too many versions wait to be recorded, the Log drops the others and calls Observe. They are recorded when they are
// requested again. If there are too many records, the Log removes those with the oldest last request.
type Log struct {
	Records store.Records
	Kind    store.Kind
	// Observe, if not nil, is called when requests could not be recorded and will be retried, and for the first dropped
	// version.
	Observe func(error)

	writing sync.Mutex // held while requests are written to the store

	mu       sync.Mutex
	fresh    map[modproxy.Ref]Request // not recorded yet, by folded version
	over     bool                     // a request was dropped since all others were recorded
	recorded int                      // approximate number of records
	counted  bool
}

const (
	maxAskers   = 16
	maxAsker    = 256             // bytes of one name
	maxFresh    = 1024            // versions waiting to be recorded
	maxRequests = 10_000          // recorded versions
	trimmed     = maxRequests / 8 // number of records that are removed at once
	writeEvery  = time.Second
	maxWritten  = 32 // versions each time: every one is a change of the store, which is flushed
)

// See adds one request for a version. It does not wait for the store.
func (l *Log) See(v modproxy.Ref, asker modproxy.Asker) { l.see(v, asker, "") }

func (l *Log) see(v modproxy.Ref, asker modproxy.Asker, refused string) {
	now := time.Now().UTC()
	r := Request{Ref: v, First: now, Last: now, Count: 1, Groups: asker.Groups, Refused: refused}
	if asker.Shown != "" && len(asker.Shown) <= maxAsker {
		r.Askers = []string{asker.Shown}
	}
	l.remember(fold(v), r)
}

// remember adds requests for a version to those that wait to be recorded.
func (l *Log) remember(key modproxy.Ref, r Request) {
	if !l.hold(key, r) && l.Observe != nil {
		l.Observe(fmt.Errorf("more than %d versions wait to be recorded: %s and others are passed over until they are asked for again",
			maxFresh, r.Ref))
	}
}

// hold adds r to the requests that wait to be recorded. It returns false if r is the first dropped request.
func (l *Log) hold(key modproxy.Ref, r Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, known := l.fresh[key]
	switch {
	case known:
		r = was.with(r)
	case len(l.fresh) >= maxFresh:
		told := l.over
		l.over = true
		return told
	case l.fresh == nil:
		l.fresh = map[modproxy.Ref]Request{}
	}
	l.fresh[key] = r
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

// Run records requests, up to maxWritten versions every second until ctx ends, and then the rest.
func (l *Log) Run(ctx context.Context) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for most := maxWritten; most < maxFresh; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			most = maxFresh
		}
		if err := l.write(context.WithoutCancel(ctx), most); err != nil && l.Observe != nil {
			l.Observe(err)
		}
	}
}

// Write records all requests that See has added so far. It returns after all of them are recorded, or with an error.
func (l *Log) Write(ctx context.Context) error { return l.write(ctx, maxFresh) }

func (l *Log) write(ctx context.Context, most int) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	var errs []error
	added := 0
	for key, more := range l.take(most) {
		isNew, err := l.record(ctx, key, more)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", more.Ref, err))
			l.remember(key, more)
		case isNew:
			added++
		}
	}
	if added > 0 {
		errs = append(errs, l.trim(ctx, added))
	}
	return errors.Join(errs...)
}

// take removes and returns up to most requests that wait to be recorded.
func (l *Log) take(most int) map[modproxy.Ref]Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	some := map[modproxy.Ref]Request{}
	for key, request := range l.fresh {
		if len(some) == most {
			break
		}
		some[key] = request
		delete(l.fresh, key)
	}
	l.over = l.over && len(l.fresh) > 0
	return some
}

// record adds requests for one version to the recorded ones.
func (l *Log) record(ctx context.Context, key modproxy.Ref, more Request) (isNew bool, err error) {
	_, err = l.table().Update(ctx, key.String(), func(row *store.Row[Request]) {
		if isNew = !row.Exists; isNew || row.Damaged {
			row.Value = more
		} else {
			row.Value = row.Value.with(more)
		}
	})
	return isNew && err == nil, err
}

func (l *Log) table() store.Table[Request] {
	return store.Table[Request]{Records: l.Records, Kind: l.Kind, Belongs: func(key string, r Request) bool {
		return r.CheckAddress() == nil && fold(r.Ref).String() == key
	}}
}

// trim removes the records with the oldest last request if there are too many records.
func (l *Log) trim(ctx context.Context, added int) error {
	l.mu.Lock()
	l.recorded += added
	enough := l.counted && l.recorded <= maxRequests
	l.mu.Unlock()
	if enough {
		return nil
	}
	left, err := l.table().Trim(ctx, maxRequests, trimmed, func(r Request) time.Time { return r.Last })
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recorded, l.counted = left, true
	return nil
}

// List yields the recorded requests, by module and version, without damaged ones. An error ends the sequence.
func (l *Log) List(ctx context.Context) iter.Seq2[Request, error] {
	return func(yield func(Request, error) bool) {
		for row, err := range l.table().List(ctx, "") {
			if row.Damaged {
				continue
			}
			if !yield(row.Value, err) || err != nil {
				return
			}
		}
	}
}

// Clear removes the requests for a version, and returns their number. If v has no version, it removes all versions of the
// module. If v is zero, it removes all requests.
func (l *Log) Clear(ctx context.Context, v modproxy.Ref) (n int, err error) {
	if err := l.Write(ctx); err != nil {
		return 0, err
	}
	for row, err := range l.table().List(ctx, "") {
		switch {
		case err != nil:
			return n, err
		case v != modproxy.Ref{} && (row.Damaged || !row.Value.Of(v)):
			continue
		}
		deleted, err := l.table().Delete(ctx, row)
		if err != nil {
			return n, err
		}
		if deleted { // else a client has requested it again
			n++
		}
	}
	return n, nil
}

// Of reports whether r is about v, or about the module of v if v has no version.
func (r *Request) Of(v modproxy.Ref) bool {
	return r.Address.Folded() == v.Address.Folded() && (v.Version == "" || fold(r.Ref) == fold(v))
}

// fold returns the key of the requests for v: the address is in lower case, and variants have the version from which they are
// derived.
func fold(v modproxy.Ref) modproxy.Ref {
	return v.Base().Folded()
}
