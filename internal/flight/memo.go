package flight

import "sync"

// Memo calls a function once for each key, and remembers its result, even if it is an error. The zero value is ready. It is safe
// for concurrent use.
type Memo[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]func() (V, error)
}

// Do returns the result of the first call for k. A call runs in the goroutine of its first caller; the other callers wait for it.
// If it panics, Do panics in all of them.
func (m *Memo[K, V]) Do(k K, call func() (V, error)) (V, error) {
	m.mu.Lock()
	if m.all == nil {
		m.all = map[K]func() (V, error){}
	}
	if m.all[k] == nil {
		m.all[k] = sync.OnceValues(call)
	}
	result := m.all[k]
	m.mu.Unlock()
	return result()
}
