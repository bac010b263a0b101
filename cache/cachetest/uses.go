package cachetest

import (
	"iter"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// Uses tests uses. open gives n handles on one storage that is empty.
func Uses(t *testing.T, open func(t *testing.T, n int) []cache.Uses) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	one, two, three := modproxy.Digest{1}, modproxy.Digest{2}, modproxy.Digest{2, 1}
	handles := func(t *testing.T) (a, b cache.Uses) {
		list := open(t, 2)
		return list[0], list[1]
	}
	want := func(t *testing.T, u cache.Uses, want ...cache.Use) {
		t.Helper()
		got := map[modproxy.Digest]cache.Use{}
		for use, err := range u.Uses() {
			must(t, err)
			if _, twice := got[use.Digest]; twice {
				t.Errorf("%s was yielded twice", use.Digest)
			}
			got[use.Digest] = use
		}
		all := map[modproxy.Digest]cache.Use{}
		for _, use := range want {
			all[use.Digest] = use
		}
		if d := cmp.Diff(all, got); d != "" {
			t.Error(d)
		}
	}
	t.Run("absent", func(t *testing.T) {
		a, b := handles(t)
		want(t, a)
		must(t, b.PutUses(nil))
		want(t, a)
	})
	t.Run("kept", func(t *testing.T) {
		a, b := handles(t)
		uses := []cache.Use{{Digest: one, Last: at(1)}, {Digest: two, Last: at(1790000000123), Evicted: true}, {Digest: three, Last: at(0)}}
		must(t, a.PutUses(uses))
		want(t, a, uses...)
		want(t, b, uses...)
	})
	t.Run("replaced", func(t *testing.T) {
		a, b := handles(t)
		must(t, a.PutUses([]cache.Use{{Digest: one, Last: at(5), Evicted: true}, {Digest: two, Last: at(5)}}))
		must(t, b.PutUses([]cache.Use{{Digest: one, Last: at(4)}})) // it may be set back: a clock may be, too
		want(t, a, cache.Use{Digest: one, Last: at(4)}, cache.Use{Digest: two, Last: at(5)})
	})
	t.Run("many", func(t *testing.T) {
		a, b := handles(t)
		var uses []cache.Use
		for i := range 5000 {
			uses = append(uses, cache.Use{Digest: modproxy.Digest{byte(i), byte(i >> 8), 9}, Last: at(int64(i))})
		}
		must(t, a.PutUses(uses))
		want(t, b, uses...)
		for range b.Uses() {
			break // the iterator must bear it
		}
	})
	t.Run("at once", func(t *testing.T) {
		list := open(t, 4)
		var group sync.WaitGroup
		for i := range 16 {
			group.Go(func() {
				uses := []cache.Use{{Digest: one, Last: at(int64(i))}, {Digest: two, Last: at(int64(i))}}
				if err := list[i%4].PutUses(uses); err != nil {
					t.Errorf("PutUses: %v", err)
				}
			})
		}
		group.Wait()
		var times []time.Time
		for use, err := range list[0].Uses() {
			must(t, err)
			times = append(times, use.Last)
		}
		if len(times) != 2 || !times[0].Equal(times[1]) {
			t.Errorf("%v: half of one, and half of another", times)
		}
	})
}

// MemoryUses are uses in memory. The zero value is empty.
type MemoryUses struct {
	mu   sync.Mutex
	fail error
	uses map[modproxy.Digest]cache.Use
	puts int
}

// Fail makes every method fail from now on; nil ends that.
func (u *MemoryUses) Fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fail = err
}

// Puts is how often something was put.
func (u *MemoryUses) Puts() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.puts
}

// PutUses implements [cache.Uses].
func (u *MemoryUses) PutUses(uses []cache.Use) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.fail != nil {
		return u.fail
	}
	if u.uses == nil {
		u.uses = map[modproxy.Digest]cache.Use{}
	}
	u.puts++
	for _, use := range uses {
		u.uses[use.Digest] = use
	}
	return nil
}

// Uses implements [cache.Uses].
func (u *MemoryUses) Uses() iter.Seq2[cache.Use, error] {
	return func(yield func(cache.Use, error) bool) {
		u.mu.Lock()
		uses, err := maps.Clone(u.uses), u.fail
		u.mu.Unlock()
		if err != nil {
			yield(cache.Use{}, err)
			return
		}
		for _, use := range uses {
			if !yield(use, nil) {
				return
			}
		}
	}
}
