package httpx

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Few large documents are made at the same time, and few requests wait for that. Small documents do not wait.
func TestMakingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDocuments()
		var mu sync.Mutex
		var most int64
		var making, refused atomic.Int64
		slow := func() (*Document, error) {
			mu.Lock()
			most = max(most, making.Add(1))
			mu.Unlock()
			time.Sleep(2 * makeWait)
			making.Add(-1)
			return NewDocument("x")
		}
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				_, err := d.Make(t.Context(), largeDocument, slow)
				switch {
				case errors.Is(err, errDocuments) && wait(err) > 0:
					refused.Add(1)
				case err != nil:
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := refused.Load(); making.Load() != maxMaking || n != 100-maxMaking-maxWaiting {
			t.Errorf("%d are made, and %d do not wait", making.Load(), n)
		}
		if _, err := d.Make(t.Context(), largeDocument-1, func() (*Document, error) { return NewDocument("x") }); err != nil {
			t.Error(err)
		}
		group.Wait()
		if n := refused.Load(); most != maxMaking || n != 100-maxMaking {
			t.Errorf("%d were made at the same time, and %d not", most, n)
		}
		if _, err := d.Make(t.Context(), largeDocument, slow); err != nil {
			t.Error(err)
		}
	})
}
