// Package memory remembers what is found out again at some cost, and never more of it than there is room for.
package memory

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxKnown is how many values a [Cache] remembers.
const maxKnown = 16 << 10

// Cache remembers values for a while each. It is bounded in number, and in bytes if it has a limit; the values
// that were not looked at for longest are forgotten. Its zero value is empty. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	Limit int64 // bytes; zero: no bound. It is set before the first use.

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

func (c *Cache[K, V]) lock() {
	c.mu.Lock()
	if c.known == nil {
		c.known, _ = simplelru.NewLRU(maxKnown, func(_ K, e *remembered[V]) { c.used -= e.bytes })
	}
}

// Get returns the value for k, and whether it counts; after its time it is returned all the same.
func (c *Cache[K, V]) Get(k K) (v V, ok bool) {
	c.lock()
	defer c.mu.Unlock()
	e, ok := c.known.Get(k)
	if !ok {
		return v, false
	}
	return e.value, time.Now().Before(e.until)
}

// Add remembers v of some bytes for d, if that is positive.
func (c *Cache[K, V]) Add(k K, v V, d time.Duration, bytes int64) {
	if d > 0 {
		c.lock()
		defer c.mu.Unlock()
		c.put(k, &remembered[V]{v, time.Now().Add(d), bytes})
	}
}

// Begin is called before a value for k is looked up. The value is added with remember, which does nothing if k
// was dropped or added meanwhile, or is being looked up anew.
func (c *Cache[K, V]) Begin(k K) (remember func(v V, d time.Duration, bytes int64)) {
	c.lock()
	defer c.mu.Unlock()
	mark := &remembered[V]{}
	if e, ok := c.known.Peek(k); ok {
		*mark = *e
	}
	c.put(k, mark)
	return func(v V, d time.Duration, bytes int64) {
		c.lock()
		defer c.mu.Unlock()
		if e, _ := c.known.Peek(k); e == mark && d > 0 {
			c.put(k, &remembered[V]{v, time.Now().Add(d), bytes})
		}
	}
}

func (c *Cache[K, V]) put(k K, e *remembered[V]) {
	c.known.Remove(k) // Add would not tell of what it replaces
	if c.Limit > 0 && e.bytes > c.Limit {
		return // it would take the place of all others, and have none
	}
	c.used += e.bytes
	c.known.Add(k, e)
	for c.Limit > 0 && c.used > c.Limit {
		c.known.RemoveOldest()
	}
}

// Drop forgets k.
func (c *Cache[K, V]) Drop(k K) {
	c.lock()
	defer c.mu.Unlock()
	c.known.Remove(k)
}

// Remove forgets every key that matches.
func (c *Cache[K, V]) Remove(match func(K) bool) {
	c.lock()
	defer c.mu.Unlock()
	for _, k := range c.known.Keys() {
		if match(k) {
			c.known.Remove(k)
		}
	}
}
