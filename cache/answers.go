package cache

import (
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// answer is a document as it is served from memory. It is not changed.
type answer[V document[V]] struct {
	kept, stale V
	revision    uint64 // of the record in the store; zero: it could not be kept
	asked       time.Time
	read        time.Time // when it was last compared with the store
	again       time.Time // no refresh before
	old         bool      // it is known not to be current
}

func newAnswer[V document[V]](v V, asked time.Time, revision uint64) *answer[V] {
	return &answer[V]{kept: v.marked(false), stale: v.marked(true), revision: revision, asked: asked, read: time.Now()}
}

// known reports whether a counts without being compared with the store. One that could
// not be kept does.
func (a *answer[V]) known() bool { return a.revision == 0 || time.Since(a.read) < recallFor }

// fresh reports whether a needs no refresh. An answer from the future, as it is seen
// after the clock was set back, is not fresh.
func (a *answer[V]) fresh(now time.Time, limit time.Duration) bool {
	age := now.Sub(a.asked)
	return !a.old && age >= 0 && age < limit
}

// answers is an LRU bounded by bytes. It is safe for concurrent use.
type answers[K comparable, V document[V]] struct {
	mu          sync.Mutex
	hot         *simplelru.LRU[K, *answer[V]]
	used, limit int64
}

func newAnswers[K comparable, V document[V]](limit int64) *answers[K, V] {
	a := &answers[K, V]{limit: limit}
	a.hot, _ = simplelru.NewLRU(math.MaxInt, func(_ K, old *answer[V]) { a.used -= old.kept.size() })
	return a
}

func (a *answers[K, V]) get(k K) (*answer[V], bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hot.Get(k)
}

func (a *answers[K, V]) add(k K, new *answer[V]) {
	size := new.kept.size()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hot.Remove(k) // replacing would not call back
	a.used += size
	a.hot.Add(k, new)
	for a.used > a.limit {
		a.hot.RemoveOldest()
	}
}

// replace puts a changed copy of the answer that was seen in its place, unless there is
// another one by now, and returns the copy.
func (a *answers[K, V]) replace(k K, seen *answer[V], change func(*answer[V])) *answer[V] {
	changed := *seen
	change(&changed)
	a.mu.Lock()
	defer a.mu.Unlock()
	if now, ok := a.hot.Peek(k); ok && now == seen {
		a.hot.Add(k, &changed) // of the same size
	}
	return &changed
}

func (a *answers[K, V]) remove(k K) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hot.Remove(k)
}
