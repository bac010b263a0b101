package cache

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// memory remembers values for a while each. It is bounded in number, and in bytes if it has a limit; the values
// that were not looked at for longest are forgotten. Its zero value is empty. It is safe for concurrent use.
type memory[K comparable, V any] struct {
	limit int64 // bytes; zero: no bound

	mu    sync.Mutex
	known *simplelru.LRU[K, *remembered[V]]
	used  int64 // bytes
}

// remembered is a value with the time until which it counts. The time is made from time.Now, so that a jump of
// the wall clock does not move it.
type remembered[V any] struct {
	value V
	until time.Time
	bytes int64
}

func (m *memory[K, V]) lock() {
	m.mu.Lock()
	if m.known == nil {
		m.known, _ = simplelru.NewLRU(maxKnown, func(_ K, e *remembered[V]) { m.used -= e.bytes })
	}
}

// get returns the value for k, and whether it counts; after its time it is returned all the same.
func (m *memory[K, V]) get(k K) (v V, ok bool) {
	m.lock()
	defer m.mu.Unlock()
	e, ok := m.known.Get(k)
	if !ok {
		return v, false
	}
	return e.value, time.Now().Before(e.until)
}

// add remembers v of some bytes for d, if that is positive.
func (m *memory[K, V]) add(k K, v V, d time.Duration, bytes int64) {
	if d > 0 {
		m.lock()
		defer m.mu.Unlock()
		m.put(k, &remembered[V]{v, time.Now().Add(d), bytes})
	}
}

// begin is called before a value for k is looked up. The value is added with remember, which does nothing if k
// was dropped or added meanwhile, or is being looked up anew.
func (m *memory[K, V]) begin(k K) (remember func(v V, d time.Duration, bytes int64)) {
	m.lock()
	defer m.mu.Unlock()
	mark := &remembered[V]{}
	if e, ok := m.known.Peek(k); ok {
		*mark = *e
	}
	m.put(k, mark)
	return func(v V, d time.Duration, bytes int64) {
		m.lock()
		defer m.mu.Unlock()
		if e, _ := m.known.Peek(k); e == mark && d > 0 {
			m.put(k, &remembered[V]{v, time.Now().Add(d), bytes})
		}
	}
}

func (m *memory[K, V]) put(k K, e *remembered[V]) {
	m.known.Remove(k) // Add would not tell of what it replaces
	m.used += e.bytes
	m.known.Add(k, e)
	for m.limit > 0 && m.used > m.limit {
		m.known.RemoveOldest()
	}
}

func (m *memory[K, V]) drop(k K) {
	m.lock()
	defer m.mu.Unlock()
	m.known.Remove(k)
}

// remove drops every value whose key matches.
func (m *memory[K, V]) remove(match func(K) bool) {
	m.lock()
	defer m.mu.Unlock()
	for _, k := range m.known.Keys() {
		if match(k) {
			m.known.Remove(k)
		}
	}
}
