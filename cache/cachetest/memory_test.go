package cachetest_test

import (
	"testing"

	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/cachetest"
)

func TestMemoryIndex(t *testing.T) {
	cachetest.Index(t, func(t *testing.T, n int) []cache.Index {
		x := &cachetest.MemoryIndex{}
		handles := make([]cache.Index, n)
		for i := range handles {
			handles[i] = x
		}
		return handles
	})
}

func TestMemoryBlobs(t *testing.T) {
	cachetest.Blobs(t, func(t *testing.T, n int) []cache.Blobs {
		b := &cachetest.MemoryBlobs{}
		handles := make([]cache.Blobs, n)
		for i := range handles {
			handles[i] = b
		}
		return handles
	})
}

func TestMemoryUses(t *testing.T) {
	cachetest.Uses(t, func(t *testing.T, n int) []cache.Uses {
		u := &cachetest.MemoryUses{}
		handles := make([]cache.Uses, n)
		for i := range handles {
			handles[i] = u
		}
		return handles
	})
}
