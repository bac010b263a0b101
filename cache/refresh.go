package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
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

// Requested returns the modules and providers of a registry whose versions were requested, and for which Next may have another answer
// now: those with a stored list, and those that were remembered as missing, perhaps longer ago than counts.
func (r *Registry) Requested(ctx context.Context, host string) (listed, missing []modproxy.Address, err error) {
	for rec, err := range r.Store.Records.List(ctx, VersionsKind, host+"/") {
		if err != nil && !errors.Is(err, store.ErrDamaged) {
			return nil, nil, err
		}
		if part := strings.Split(rec.Key, "/"); len(part) == 4 {
			listed = append(listed, modproxy.Address{Host: part[0], Namespace: part[1], Name: part[2], System: part[3]})
		}
	}
	for _, k := range r.versions.missing.Keys() {
		if k.Host == host {
			missing = append(missing, k.Address)
		}
	}
	return listed, missing, nil
}

// without returns the elements of list that are not in other.
func without(list, other []string) []string {
	in := make(map[string]bool, len(other))
	for _, version := range other {
		in[version] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(version string) bool { return in[version] })
}
