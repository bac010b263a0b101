package disk_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/modproxy/modproxy/store"
)

// Loops over all stored blobs and records yield a single processor to requests.
func TestListsLetOthersRun(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	defer d.Close()
	put(t, d)
	const n = 60 // less than are read at once
	for i := range n {
		_, err := d.Records().Put(t.Context(), store.Record{Ref: store.Ref{Kind: "many", Key: fmt.Sprint(i)}})
		must(t, err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	yields(t, func(start func(), hadTurn func() bool) bool {
		seen, at := 0, 0
		for _, err := range d.Records().List(t.Context(), "many", "") {
			must(t, err)
			if seen++; seen == 1 {
				start()
			}
			if at == 0 && hadTurn() {
				at = seen
			}
		}
		if seen != n {
			t.Errorf("%d of %d records", seen, n)
		}
		return at > 0 && at <= 40
	})
	yields(t, func(start func(), hadTurn func() bool) (early bool) {
		start()
		for _, err := range d.Blobs().Blobs(t.Context()) {
			must(t, err)
			early = hadTurn() // before the first and only blob
		}
		return early
	})
}

// yields fails the test unless two of three calls of list report that another goroutine had an early turn. list starts that goroutine. In one
// of 61 decisions, the scheduler continues with the goroutine that has yielded: schedtick in runtime/proc.go.
func yields(t *testing.T, list func(start func(), hadTurn func() bool) (early bool)) {
	t.Helper()
	had := 0
	for range 3 {
		var turn atomic.Bool
		if list(func() { go turn.Store(true) }, turn.Load) {
			had++
		}
	}
	if had < 2 {
		t.Errorf("others had an early turn in %d of 3 calls", had)
	}
}
