package policy

import (
	"context"
	"encoding/json"
	"errors"
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
	modproxy.ModuleVersion

	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	Count  int       `json:"count"`
	Askers []string  `json:"askers"` // the first ones, each once
}

// Requests remembers the requests for versions that wait for approval. It is safe for concurrent use; several processes
// may share the records.
type Requests struct {
	Records store.Records

	mu    sync.Mutex
	fresh map[modproxy.ModuleVersion]*Request // not recorded yet
}

const (
	maxAskers   = 16
	maxFresh    = 1_000  // versions that are asked for between two writes
	maxRequests = 10_000 // versions that are recorded
	writeEvery  = time.Second
)

// See remembers a request. It does not wait for the store.
func (r *Requests) See(v modproxy.ModuleVersion, asker string) {
	now := time.Now().UTC()
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.fresh[v]
	switch {
	case was == nil && len(r.fresh) >= maxFresh:
		return
	case was == nil:
		was = &Request{ModuleVersion: v, First: now}
		if r.fresh == nil {
			r.fresh = map[modproxy.ModuleVersion]*Request{}
		}
		r.fresh[v] = was
	}
	was.add(Request{Last: now, Count: 1, Askers: []string{asker}})
}

// add adds later requests.
func (r *Request) add(more Request) {
	r.Last, r.Count = more.Last, r.Count+more.Count
	for _, asker := range more.Askers {
		if asker != "" && len(r.Askers) < maxAskers && !slices.Contains(r.Askers, asker) {
			r.Askers = append(r.Askers, asker)
		}
	}
}

// Run records what is seen every second until ctx ends, and then once more.
func (r *Requests) Run(ctx context.Context) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		_ = r.Write(context.WithoutCancel(ctx)) // what is not written is seen again
	}
}

// Write records what was seen.
func (r *Requests) Write(ctx context.Context) error {
	r.mu.Lock()
	fresh := r.fresh
	r.fresh = nil
	r.mu.Unlock()
	if len(fresh) == 0 {
		return nil
	}
	room := maxRequests
	for _, err := range r.Records.List(ctx, RequestKind, "") {
		if err != nil && !errors.Is(err, store.ErrDamaged) {
			return err
		}
		room--
	}
	var errs []error
	for _, more := range fresh {
		ref := store.Ref{Kind: RequestKind, Key: more.String()}
		rec, err := r.Records.Get(ctx, ref)
		var was Request
		switch {
		case err == nil && json.Unmarshal(rec.Value, &was) == nil:
			was.add(*more)
		case room <= 0 && errors.Is(err, fs.ErrNotExist):
			continue
		default:
			was = *more
			room--
		}
		text, err := json.Marshal(was)
		if err == nil {
			_, err = r.Records.Put(ctx, store.Record{Ref: ref, Value: text, Revision: rec.Revision})
		}
		if !errors.Is(err, store.ErrConflict) { // another process has counted
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// List yields what is recorded, by module and version. What is damaged is passed over. An error ends the sequence.
func (r *Requests) List(ctx context.Context) iter.Seq2[Request, error] {
	return func(yield func(Request, error) bool) {
		for rec, err := range r.Records.List(ctx, RequestKind, "") {
			var request Request
			if errors.Is(err, store.ErrDamaged) || err == nil && json.Unmarshal(rec.Value, &request) != nil {
				continue
			}
			if !yield(request, err) || err != nil {
				return
			}
		}
	}
}
