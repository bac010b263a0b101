package cache

import "github.com/modproxy/modproxy"

// Forget makes the next question about a version look at its record in the index
// again, and ask Next again if it must: what counts for the version has changed.
// Without a version it does so for every version of m, and with the zero Module for
// every version of any. What is kept stays.
func (r *Registry) Forget(m modproxy.Module, version string) {
	r.once.Do(r.start)
	r.forgets.Add(1) // first: see relearn
	switch {
	case m == (modproxy.Module{}):
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

// relearn is called after something about k was learned. If something was forgotten
// since, it may be what counted before, and the next question looks again.
func (r *Registry) relearn(k key, since uint64) {
	if r.forgets.Load() != since {
		r.unlearn(k)
	}
}
