package cache

import (
	"context"
	"fmt"
	"slices"

	"github.com/modproxy/modproxy"
)

// Refreshed is the result of a refresh. Versions are in the order of the list.
type Refreshed struct {
	Versions int      `json:"versions"`       // the number of listed versions
	New      []string `json:"new,omitempty"`  // Next lists them now, and did not before
	Gone     []string `json:"gone,omitempty"` // Next listed them before, and does not now
	Kept     []string `json:"kept,omitempty"` // of Gone, those that stay listed because they are stored or recorded
}

// Refresh asks Next for the versions of m now. It also drops from memory what [Registry.Forget] drops for m.
//
// Errors: those of Next; [modproxy.RetryLater] if it takes longer than ctx; [modproxy.ErrUnavailable] if the registry is
// offline.
func (r *Registry) Refresh(ctx context.Context, m modproxy.Address) (Refreshed, error) {
	k := keyOf(m)
	if r.Next == nil {
		return Refreshed{}, k.wrap("versions", fmt.Errorf("%w: modproxy is offline and sends no requests to registries", modproxy.ErrUnavailable))
	}
	a, err := r.versions.read(ctx, k)
	if err != nil {
		return Refreshed{}, k.wrap("versions", err)
	}
	var before []string
	if a != nil {
		before = a.value.offered()
	}
	r.Forget(k.Ref)
	r.versions.retryAfter.Drop(k)
	l, err := r.versions.newRequest(ctx, k, a)
	if err != nil {
		return Refreshed{}, k.wrap("versions", err)
	}
	after := l.offered()
	out := Refreshed{Versions: len(l.List), New: without(after, before), Gone: without(before, after)}
	for _, version := range out.Gone {
		if l.lists(version) {
			out.Kept = append(out.Kept, version)
		}
	}
	return out, nil
}

// without returns the elements of list that are not in other.
func without(list, other []string) []string {
	in := make(map[string]bool, len(other))
	for _, version := range other {
		in[version] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(version string) bool { return in[version] })
}
