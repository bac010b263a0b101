package cache

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// memory remembers values for a while each. It is bounded in number; those that were
// not looked at for longest are forgotten. It is safe for concurrent use.
type memory[K comparable, V any] struct {
	known *lru.Cache[K, remembered[V]]
}

// remembered is a value with the time until which it counts. The time is made from
// time.Now, so that a jump of the wall clock does not move it.
type remembered[V any] struct {
	value V
	until time.Time
}

func newMemory[K comparable, V any]() *memory[K, V] {
	known, err := lru.New[K, remembered[V]](maxKnown)
	if err != nil {
		panic(err) // maxKnown is positive, which is all that New can complain about
	}
	return &memory[K, V]{known}
}

func (m *memory[K, V]) add(k K, v V, d time.Duration) {
	if d > 0 {
		m.known.Add(k, remembered[V]{v, time.Now().Add(d)})
	}
}

// get returns the value for k if it counts.
func (m *memory[K, V]) get(k K) (v V, ok bool) {
	e, ok := m.known.Get(k)
	if !ok || !time.Now().Before(e.until) {
		return v, false
	}
	return e.value, true
}

// last returns the value for k, also one that does not count any more; else the zero
// value.
func (m *memory[K, V]) last(k K) V {
	e, _ := m.known.Peek(k)
	return e.value
}

func (m *memory[K, V]) drop(k K) { m.known.Remove(k) }

// remove drops every value whose key matches.
func (m *memory[K, V]) remove(match func(K) bool) {
	for _, k := range m.known.Keys() {
		if match(k) {
			m.known.Remove(k)
		}
	}
}
