package cache

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/modproxy/modproxy"
)

// Forget makes the next question about a version look at its record in the index
// again, and ask Next again if it must: what counts for the version has changed.
// Without a version it does so for every version of m, and with the zero Module for
// every version of any. What is kept stays.
func (r *Registry) Forget(m modproxy.Module, version string) {
	r.once.Do(r.start)
	r.forgotten(m).Add(1) // first: see relearn
	switch {
	case m == (modproxy.Module{}):
		for i := range r.forgets {
			r.forgets[i].Add(1)
		}
		r.records.Purge()
		r.located.Purge()
		r.failed.kept.Purge()
		r.missing.kept.Purge()
	case version == "":
		r.unlearn(key{Module: m})
		for _, known := range [][]key{r.records.Keys(), r.located.Keys(), r.failed.kept.Keys(), r.missing.kept.Keys()} {
			for _, k := range known {
				if k.Module == m {
					r.unlearn(k)
				}
			}
		}
	default:
		r.unlearn(key{m, version})
	}
}

func (r *Registry) unlearn(k key) {
	r.records.Remove(k)
	r.located.Remove(k)
	r.failed.kept.Remove(k)
	r.missing.kept.Remove(k)
}

// forgotten is how often something about m was forgotten, and about some others.
func (r *Registry) forgotten(m modproxy.Module) *atomic.Uint64 {
	return &r.forgets[maphash.Comparable(r.seed, m)%uint64(len(r.forgets))]
}

// relearn is called after something about k was learned. If something about its module
// was forgotten since, it may be what counted before, and the next question looks again.
func (r *Registry) relearn(k key, since uint64) {
	if r.forgotten(k.Module).Load() != since {
		r.unlearn(k)
	}
}
