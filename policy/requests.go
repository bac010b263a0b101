package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// RequestKind is the kind of the records of [Requests].
const RequestKind store.Kind = "module-request"

// Request says who asked for a version that waits for approval.
type Request struct {
	modproxy.ModuleVersion           // as it was spelled first
	First                  time.Time `json:"first"`
	Last                   time.Time `json:"last"`
	Count                  int       `json:"count"`
	Askers                 []string  `json:"askers"` // the first ones, each once
	Groups                 []string  `json:"groups"` // of the last one
}

// Requests remembers the requests for versions that wait for approval. It is safe for concurrent use; several processes
// may share the records.
//
// Versions of which there are too many at a time are passed over, and remembered when they are asked for again. Of
// those that are recorded, the ones that were asked for longest ago go first.
type Requests struct {
	Records store.Records
	// Observe, if not nil, is told when requests could not be recorded. They are kept, and recorded later.
	Observe func(error)

	mu       sync.Mutex
	fresh    map[modproxy.ModuleVersion]*Request // not recorded yet, by folded version
	recorded int                                 // how many records there are, about
	counted  bool
}

const (
	maxAskers   = 16
	maxAsker    = 256             // bytes of one
	maxFresh    = 256             // versions that wait to be recorded
	maxRequests = 10_000          // versions that are recorded
	trimmed     = maxRequests / 8 // how many go when there are too many
	writeEvery  = time.Second
	maxWritten  = 32 // versions each time: every one is a change of the store, which is flushed
	maxTries    = 16 // to change a record that others change, too
)

// See remembers that a version was asked for. It does not wait for the store.
func (r *Requests) See(v modproxy.ModuleVersion, asker modproxy.Asker) {
	now, key := time.Now().UTC(), fold(v)
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.fresh[key]
	switch {
	case was != nil:
		was.Last, was.Groups = now, asker.Groups
		was.Count++
	case len(r.fresh) >= maxFresh:
		return
	default:
		was = &Request{ModuleVersion: v, First: now, Last: now, Count: 1, Groups: asker.Groups}
		if r.fresh == nil {
			r.fresh = map[modproxy.ModuleVersion]*Request{}
		}
		r.fresh[key] = was
	}
	was.name(asker.Shown)
}

func (r *Request) name(asker string) {
	if asker != "" && len(asker) <= maxAsker && len(r.Askers) < maxAskers && !slices.Contains(r.Askers, asker) {
		r.Askers = append(r.Askers, asker)
	}
}

// add adds other requests for the same version.
func (r *Request) add(other Request) {
	r.Count += other.Count
	if other.First.Before(r.First) {
		r.First = other.First
	}
	if other.Last.After(r.Last) {
		r.Last, r.Groups = other.Last, other.Groups
	}
	for _, asker := range other.Askers {
		r.name(asker)
	}
}

// Run records what is seen, some every second until ctx ends, and then the rest.
func (r *Requests) Run(ctx context.Context) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for most := maxWritten; most < maxFresh; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			most = maxFresh
		}
		if err := r.write(context.WithoutCancel(ctx), most); err != nil && r.Observe != nil {
			r.Observe(err)
		}
	}
}

// Write records what was seen.
func (r *Requests) Write(ctx context.Context) error { return r.write(ctx, maxFresh) }

func (r *Requests) write(ctx context.Context, most int) error {
	var errs []error
	added := 0
	for key, more := range r.take(most) {
		isNew, err := r.record(ctx, key, *more)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", more.ModuleVersion, err))
			r.again(key, *more)
		case isNew:
			added++
		}
	}
	if added > 0 {
		errs = append(errs, r.trim(ctx, added))
	}
	return errors.Join(errs...)
}

// take takes some of what is not recorded.
func (r *Requests) take(most int) map[modproxy.ModuleVersion]*Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	some := map[modproxy.ModuleVersion]*Request{}
	for key, request := range r.fresh {
		if len(some) == most {
			break
		}
		some[key] = request
		delete(r.fresh, key)
	}
	return some
}

// again has requests recorded later.
func (r *Requests) again(key modproxy.ModuleVersion, more Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch since := r.fresh[key]; {
	case since != nil:
		more.add(*since)
	case len(r.fresh) >= maxFresh:
		return
	case r.fresh == nil:
		r.fresh = map[modproxy.ModuleVersion]*Request{}
	}
	r.fresh[key] = &more
}

// record adds requests for one version to what is recorded.
func (r *Requests) record(ctx context.Context, key modproxy.ModuleVersion, more Request) (isNew bool, err error) {
	ref := store.Ref{Kind: RequestKind, Key: key.String()}
	for range maxTries {
		rec, err := r.Records.Get(ctx, ref)
		isNew := errors.Is(err, fs.ErrNotExist)
		if err != nil && !isNew && !errors.Is(err, store.ErrDamaged) {
			return false, err
		}
		now := more
		if was, ok := parseRequest(rec); ok && err == nil {
			was.add(more)
			now = was
		}
		text, err := json.Marshal(now)
		if err != nil {
			return false, err
		}
		_, err = r.Records.Put(ctx, store.Record{Ref: ref, Value: text, Revision: rec.Revision})
		if !errors.Is(err, store.ErrConflict) {
			return isNew, err
		}
	}
	return false, fmt.Errorf("%w: the record of who asked for it changes all the time", modproxy.ErrUnavailable)
}

func parseRequest(rec store.Record) (r Request, ok bool) {
	err := json.Unmarshal(rec.Value, &r)
	return r, err == nil && r.Version != "" && r.Check() == nil
}

// trim removes those records that were asked for longest ago when there are too many.
func (r *Requests) trim(ctx context.Context, added int) error {
	r.mu.Lock()
	r.recorded += added
	enough := r.counted && r.recorded <= maxRequests
	r.mu.Unlock()
	if enough {
		return nil
	}
	type old struct {
		store.Record
		last time.Time
	}
	var all []old
	for rec, err := range r.Records.List(ctx, RequestKind, "") {
		if err != nil && !errors.Is(err, store.ErrDamaged) {
			return err
		}
		request, _ := parseRequest(rec) // what is damaged is oldest
		rec.Value = nil
		all = append(all, old{rec, request.Last})
	}
	left := len(all)
	if left > maxRequests {
		slices.SortFunc(all, func(a, b old) int { return cmp.Or(a.last.Compare(b.last), cmp.Compare(a.Key, b.Key)) })
		for _, o := range all[:len(all)-maxRequests+trimmed] {
			if err := r.Records.Delete(ctx, o.Ref, o.Revision); err != nil && !errors.Is(err, store.ErrConflict) {
				return err
			}
			left--
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recorded, r.counted = left, true
	return nil
}

// List yields what is recorded, by module and version. What is damaged is passed over. An error ends the sequence.
func (r *Requests) List(ctx context.Context) iter.Seq2[Request, error] {
	return func(yield func(Request, error) bool) {
		for rec, err := range r.Records.List(ctx, RequestKind, "") {
			request, ok := parseRequest(rec)
			if errors.Is(err, store.ErrDamaged) || err == nil && !ok {
				continue
			}
			if !yield(request, err) || err != nil {
				return
			}
		}
	}
}
