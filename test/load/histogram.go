package main

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram counts durations of any length with an error of at most 1/64. It is safe for concurrent use.
type histogram struct {
	counts [64 * 58]atomic.Uint64
	most   atomic.Int64
}

// slot is the slot of a duration: its highest bit, and the six bits after that.
func slot(d time.Duration) int {
	n := uint64(max(d, 0))
	shift := max(bits.Len64(n)-7, 0)
	return 64*shift + int(n>>shift)
}

// upper is the longest duration of a slot.
func upper(slot int) time.Duration {
	if slot < 128 {
		return time.Duration(slot)
	}
	shift := slot/64 - 1
	return time.Duration((uint64(slot-64*shift)+1)<<shift - 1)
}

func (h *histogram) add(d time.Duration) {
	h.counts[slot(d)].Add(1)
	for before := h.most.Load(); int64(d) > before && !h.most.CompareAndSwap(before, int64(d)); before = h.most.Load() {
	}
}

// count is the number of durations.
func (h *histogram) count() (n uint64) {
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// quantile is the duration that a share q of all does not exceed; 0 for an empty histogram.
func (h *histogram) quantile(q float64) time.Duration {
	all := h.count()
	rank, seen := max(uint64(q*float64(all)+0.5), 1), uint64(0)
	for i := range h.counts {
		if seen += h.counts[i].Load(); seen >= rank && all > 0 {
			return min(upper(i), time.Duration(h.most.Load()))
		}
	}
	return time.Duration(h.most.Load())
}
