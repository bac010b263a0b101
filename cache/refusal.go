package cache

import (
	"errors"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/modproxy/modproxy"
)

// refusals remembers, for a while, why something is not asked for. It is
// bounded: the ones that were not looked at for longest are forgotten.
type refusals[K comparable] struct {
	kept *lru.Cache[K, refusal]
}

// refusal is an error with the time until which it is the answer. The time is
// made from time.Now, so that a jump of the wall clock does not move it.
type refusal struct {
	err   error
	until time.Time
}

func newRefusals[K comparable]() refusals[K] {
	return refusals[K]{newLRU[K, refusal](maxRefusals)}
}

// newLRU is an LRU of a size that is known to be positive, which is all that
// its maker can complain about.
func newLRU[K comparable, V any](size int) *lru.Cache[K, V] {
	c, err := lru.New[K, V](size)
	if err != nil {
		panic(err)
	}
	return c
}

func (f refusals[K]) add(k K, err error, d time.Duration) {
	if d > 0 {
		f.kept.Add(k, refusal{err, time.Now().Add(d)})
	}
}

// get is the error to answer with, or nil.
func (f refusals[K]) get(k K) error {
	kept, ok := f.kept.Get(k)
	if !ok || !time.Now().Before(kept.until) {
		return nil
	}
	return kept.err
}

// last is the error of the last time, also when it is not the answer any more; or
// nil.
func (f refusals[K]) last(k K) error {
	kept, _ := f.kept.Peek(k)
	return kept.err
}

// hold is how long err says not to ask again; zero when it does not say.
func hold(err error) time.Duration {
	var later *modproxy.RetryLater
	if !errors.As(err, &later) {
		return 0
	}
	return max(0, min(time.Until(later.After), maxHold))
}
