package cache_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/cachetest"
	"github.com/modproxy/modproxy/cache/disk"
)

// stores are what two registries share.
type stores interface {
	cache.Index
	cache.Blobs
	cache.Uses
}

type inMemory struct {
	*cachetest.MemoryIndex
	*cachetest.MemoryBlobs
	*cachetest.MemoryUses
}

// What one registry removes, and what no longer counts, another one over the same
// stores does not serve any more five seconds later, from memory or not.
func TestTwoRegistriesOverOneStore(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) stores{
		"memory": func(*testing.T) stores {
			return inMemory{&cachetest.MemoryIndex{}, &cachetest.MemoryBlobs{}, &cachetest.MemoryUses{}}
		},
		"disk": func(t *testing.T) stores {
			s, err := disk.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	} {
		for what, memory := range map[string]int64{"hot": 0, "cold": -1} {
			t.Run(name+" "+what, func(t *testing.T) {
				s := open(t)
				if c, ok := s.(io.Closer); ok {
					defer c.Close()
				}
				synctest.Test(t, func(t *testing.T) { testTwoRegistries(t, s, memory) })
			})
		}
	}
}

func testTwoRegistries(t *testing.T, s stores, memory int64) {
	from := &next{script: script{listed: "1.0.0"}}
	from.content, _ = cachetest.Bytes(1000, 1)
	x := &blind{Index: s}
	one := &cache.Registry{Next: from, Index: x, Blobs: s, Uses: s, Memory: memory}
	two := &cache.Registry{Next: from, Index: x, Blobs: s, Uses: s, Memory: memory}
	away := &cache.Registry{Index: x, Blobs: s, Uses: s, Memory: memory}
	for _, r := range []*cache.Registry{one, two, away} {
		defer mustClose(t, r)
	}
	remembered := func(when string) {
		t.Helper()
		for _, r := range []*cache.Registry{one, two, away} {
			if _, err := read(r, "1.0.0"); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
	}
	remembered("at first")
	if _, err := read(one, "1.0.0+b"); err != nil { // the same bytes
		t.Fatal(err)
	}

	// Removed, and the bytes stay; then removed with the bytes.
	for _, versions := range [][]string{{"1.0.0"}, {"1.0.0", "1.0.0+b"}} {
		for _, version := range versions {
			if _, err := one.Discard(t.Context(), vpc, version); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		if _, err := read(away, "1.0.0"); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("removed %v, and served: %v", versions, err)
		}
		asked := from.asked("package")
		if _, err := read(two, "1.0.0"); err != nil || from.asked("package") != asked+1 {
			t.Errorf("removed %v, and fetched again %d times: %v", versions, from.asked("package")-asked, err)
		}
		remembered("fetched again")
	}

	// Superseded.
	x.shut.Store(true)
	time.Sleep(5 * time.Second)
	if _, err := read(away, "1.0.0"); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("superseded, and served: %v", err)
	}
	after, _ := cachetest.Bytes(1000, 2)
	from.change(func(n *next) { n.content = after })
	if got, err := read(two, "1.0.0"); !bytes.Equal(got, after) || err != nil {
		t.Errorf("superseded, and %d bytes served: %v", len(got), err)
	}
}
