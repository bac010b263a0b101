package cache

import (
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/modproxy/modproxy"
)

// answer is a versions document as it is served from memory. It is not changed.
type answer struct {
	kept  *modproxy.Versions // Hit
	stale *modproxy.Versions // Hit and Stale
	asked time.Time
	again time.Time // no refresh before
	old   bool      // it is known not to list all, and so is not fresh
}

func newAnswer(v *modproxy.Versions, asked time.Time) *answer {
	kept, stale := *v, *v
	kept.Hit, stale.Hit, stale.Stale = true, true, true
	return &answer{kept: &kept, stale: &stale, asked: asked}
}

// fresh tells whether a needs no refresh. An answer from the future, as it is
// seen after the clock was set back, is not fresh.
func (a *answer) fresh(now time.Time, limit time.Duration) bool {
	age := now.Sub(a.asked)
	return !a.old && age >= 0 && age < limit
}

// size is about what a takes in memory.
func (a *answer) size() int64 {
	const each = 160 // a Listed with its Version
	n := len(a.kept.Document) + len(a.kept.Compressed) + each*(len(a.kept.List)+4)
	return int64(n)
}

// answers is an LRU bounded by bytes.
type answers struct {
	mu          sync.Mutex
	hot         *simplelru.LRU[modproxy.Module, *answer]
	used, limit int64
}

func newAnswers(limit int64) *answers {
	a := &answers{limit: limit}
	a.hot, _ = simplelru.NewLRU(math.MaxInt, func(_ modproxy.Module, old *answer) { a.used -= old.size() })
	return a
}

func (a *answers) get(m modproxy.Module) (*answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hot.Get(m)
}

func (a *answers) add(m modproxy.Module, new *answer) {
	size := new.size()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hot.Remove(m) // replacing would not call back
	a.used += size
	a.hot.Add(m, new)
	for a.used > a.limit {
		a.hot.RemoveOldest()
	}
}

// outdate makes the answer for m that is seen old, unless it has another by now.
func (a *answers) outdate(m modproxy.Module, seen *answer) {
	outdated := *seen
	outdated.old = true
	a.mu.Lock()
	defer a.mu.Unlock()
	if now, ok := a.hot.Peek(m); ok && now == seen {
		a.hot.Add(m, &outdated) // of the same size
	}
}

func (a *answers) remove(m modproxy.Module) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hot.Remove(m)
}
