package cache

import (
	"context"
	"fmt"
	"slices"

	"github.com/modproxy/modproxy"
)

// Refreshed is what a refresh of a module found. Versions are in the order in which they
// are listed.
type Refreshed struct {
	Versions int      // listed now
	New      []string // Next lists them now, and did not when it was last asked
	Gone     []string // the other way round
	Kept     []string // of Gone, those that stay listed because their packages are kept
}

var errAsksNobody = fmt.Errorf("%w: offline, and no registry is asked", modproxy.ErrUnavailable)

// Refresh asks Next for the versions of m now. It forgets that m or versions of it were
// absent, and that packages of it could not be fetched.
//
// Errors: those of Next; [modproxy.RetryLater] when it takes longer than ctx;
// [modproxy.ErrUnavailable] when offline.
func (r *Registry) Refresh(ctx context.Context, m modproxy.Module) (Refreshed, error) {
	r.once.Do(r.start)
	k := keyOf(m)
	if r.Next == nil {
		return Refreshed{}, k.wrap("versions", errAsksNobody)
	}
	var before []string
	a, err := r.versions.read(ctx, k)
	switch {
	case err != nil:
		return Refreshed{}, k.wrap("versions", err)
	case a != nil:
		before = a.kept.offered()
	}
	r.Forget(k.ModuleVersion)
	r.versions.held.drop(k)
	l, err := r.versions.askAnew(ctx, k)
	if err != nil {
		return Refreshed{}, err
	}
	after := l.offered()
	out := Refreshed{Versions: len(l.List), New: without(after, before), Gone: without(before, after)}
	for _, version := range out.Gone {
		if _, listed := l.Find(version); listed {
			out.Kept = append(out.Kept, version)
		}
	}
	return out, nil
}

// without returns the versions of list that are not in other.
func without(list, other []string) []string {
	in := make(map[string]bool, len(other))
	for _, version := range other {
		in[version] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(version string) bool { return in[version] })
}
