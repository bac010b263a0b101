package cache

import "github.com/modproxy/modproxy"

// Held is how many bytes of packages are in memory, and how many of them could
// be evicted.
func (r *Registry) Held() (used, idle int64) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	return r.memory.used, r.memory.idle
}

// Seats is of how many blobs something is known, there or not.
func (r *Registry) Seats() (n int) {
	for range r.room.seats.Range {
		n++
	}
	return n
}

// Apart reports whether a is not forgotten with b.
func (r *Registry) Apart(a, b modproxy.Module) bool { return r.forgotten(a) != r.forgotten(b) }
