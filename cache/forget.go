package cache

import "github.com/modproxy/modproxy"

// Forget makes the next question about a version look at its record in the index
// again, and ask Next again if it must: what counts for the version has changed.
// With the zero Module it does so for every version. What is kept stays.
func (r *Registry) Forget(m modproxy.Module, version string) {
	r.once.Do(r.start)
	if m == (modproxy.Module{}) {
		r.records.Purge()
		r.located.Purge()
		r.failed.kept.Purge()
	}
	for _, c := range r.unlearn(key{m, version}) {
		// What it brings may be what counted before.
		_ = r.asking.start(func() { <-c.call.done; r.unlearn(c.key) }) // or there is no next question
	}
}

// unlearn forgets k, and is what is being fetched of it; of everything, if k is zero.
func (r *Registry) unlearn(k key) (fetches []fetching) {
	r.fetches.mu.Lock()
	for other, c := range r.fetches.calls {
		if other == k || k == (key{}) {
			fetches = append(fetches, fetching{other, c})
		}
	}
	r.fetches.mu.Unlock()
	r.records.Remove(k)
	r.located.Remove(k)
	r.failed.kept.Remove(k)
	return fetches
}

type fetching struct {
	key  key
	call *call[*PackageRecord]
}
