package disk_test

import (
	"testing"

	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/cachetest"
	"github.com/modproxy/modproxy/cache/disk"
)

func mustOpen(t testing.TB, dir string) *disk.Store {
	t.Helper()
	s, err := disk.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestIndex(t *testing.T) {
	cachetest.Index(t, func(t *testing.T, n int) []cache.Index {
		s := mustOpen(t, t.TempDir())
		handles := make([]cache.Index, n)
		for i := range handles {
			handles[i] = s
		}
		return handles
	})
}

func TestBlobs(t *testing.T) {
	cachetest.Blobs(t, func(t *testing.T, n int) []cache.Blobs {
		s := mustOpen(t, t.TempDir())
		handles := make([]cache.Blobs, n)
		for i := range handles {
			handles[i] = s
		}
		return handles
	})
}

func TestUses(t *testing.T) {
	cachetest.Uses(t, func(t *testing.T, n int) []cache.Uses {
		s := mustOpen(t, t.TempDir())
		handles := make([]cache.Uses, n)
		for i := range handles {
			handles[i] = s
		}
		return handles
	})
}
