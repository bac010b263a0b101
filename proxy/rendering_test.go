package proxy

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Few large documents are made at the same time, and few wait for that. Small ones are not held up.
func TestRenderingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Config{})
		var mu sync.Mutex
		var most int64
		var making, refused atomic.Int64
		slow := func() any {
			mu.Lock()
			most = max(most, making.Add(1))
			mu.Unlock()
			time.Sleep(2 * patience)
			making.Add(-1)
			return "x"
		}
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				_, err := h.renderedOf(t.Context(), renderKey{of: i}, largeDocument, slow)
				switch {
				case errors.Is(err, errDocuments) && wait(err) > 0:
					refused.Add(1)
				case err != nil:
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := refused.Load(); making.Load() != maxRendering || n != 100-maxRendering-maxToRender {
			t.Errorf("%d are made, and %d do not wait", making.Load(), n)
		}
		if _, err := h.renderedOf(t.Context(), renderKey{of: "small"}, largeDocument-1, func() any { return "x" }); err != nil {
			t.Error(err)
		}
		group.Wait()
		if n := refused.Load(); most != maxRendering || n != 100-maxRendering {
			t.Errorf("%d were made at the same time, and %d not", most, n)
		}
		if _, err := h.renderedOf(t.Context(), renderKey{of: "later"}, largeDocument, slow); err != nil {
			t.Error(err)
		}
	})
}
