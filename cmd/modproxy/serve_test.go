package main

import "testing"

// The amount of garbage is bounded for small and large heaps, and the memory limit alone never keeps the collector running.
func TestCollecting(t *testing.T) {
	for _, c := range []struct {
		live, held int64
		percent    int
		limit      int64
	}{
		{0, 64 << 20, 400, 384 << 20},
		{8 << 20, 64 << 20, 400, 384 << 20},
		{64 << 20, 64 << 20, 100, 384 << 20},
		{1 << 30, 64 << 20, 50, 2 << 30},
		{64 << 20, 1 << 30, 100, 2304 << 20},
	} {
		if percent, limit := collecting(c.live, c.held); percent != c.percent || limit != c.limit {
			t.Errorf("%d live, %d held: %d %%, %d", c.live, c.held, percent, limit)
		}
	}
}
