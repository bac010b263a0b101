package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/modproxy/modproxy"
)

// Refreshed is what a refresh of a module found. Versions are in the order in which
// they are listed.
type Refreshed struct {
	Versions int      // listed now
	New      []string // Next lists them now, and did not when it was last asked
	Gone     []string // the other way round
	Kept     []string // of Gone, those that stay listed because their packages are kept
}

var errAsksNobody = fmt.Errorf("%w: offline, and no registry is asked", modproxy.ErrUnavailable)

// Refresh asks Next for the versions of m now. It forgets that m or versions of it
// were absent, and that packages of it could not be fetched.
//
// Errors: those of Next; [modproxy.RetryLater] when it takes longer than ctx;
// [modproxy.ErrUnavailable] when offline.
func (r *Registry) Refresh(ctx context.Context, m modproxy.Module) (Refreshed, error) {
	r.once.Do(r.start)
	k := key{Module: m}
	if r.Next == nil {
		return Refreshed{}, k.wrap("versions", errAsksNobody)
	}
	var before []string
	a, err := r.keptAnswer(ctx, m)
	switch {
	case err != nil:
		return Refreshed{}, k.wrap("versions", err)
	case a != nil:
		before = r.offered(m, a.kept)
	}
	r.Forget(m, "")
	r.held.kept.Remove(m)
	v, err := r.askAnew(ctx, m)
	if err != nil {
		return Refreshed{}, err
	}
	after := r.offered(m, v)
	out := Refreshed{Versions: len(v.List), New: without(after, before), Gone: without(before, after)}
	for _, version := range out.Gone {
		if _, listed := v.Find(version); listed {
			out.Kept = append(out.Kept, version)
		}
	}
	return out, nil
}

// askAnew asks Next for the versions of m. The answer to a question that was under
// way before is not good enough: it may be older.
func (r *Registry) askAnew(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	for {
		own := false
		call, err := r.listings.join(ctx, r.asking, modproxy.AskerOf(ctx), m, func(ctx context.Context) (*modproxy.Versions, error) {
			own = true
			return r.askNext(ctx, m)
		})
		if err != nil {
			return nil, key{Module: m}.wrap("versions", err)
		}
		v, err := call.within(ctx, askTimeout+time.Second, "versions", key{Module: m})
		select {
		case <-call.done:
		default:
			return nil, err
		}
		if own {
			return v, err
		}
	}
}

// offered are the versions of v that Next lists, not those that are listed because
// their packages are kept.
func (r *Registry) offered(m modproxy.Module, v *modproxy.Versions) []string {
	dropped := map[string]bool{}
	for kept, err := range r.Index.Packages(m) {
		if err == nil && !kept.Record.Dropped.IsZero() { // of others it is not known
			dropped[kept.Version] = true
		}
	}
	var list []string
	for _, l := range v.List {
		if version := l.Version.String(); !dropped[version] {
			list = append(list, version)
		}
	}
	return list
}

// without are the versions of list that are not in other.
func without(list, other []string) (rest []string) {
	in := make(map[string]bool, len(other))
	for _, version := range other {
		in[version] = true
	}
	for _, version := range list {
		if !in[version] {
			rest = append(rest, version)
		}
	}
	return rest
}
