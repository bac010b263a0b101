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
	yields(t, func(hadTurn func() bool) (early bool) {
		seen, at := 0, 0
		for _, err := range d.Records().List(t.Context(), "many", "") {
			must(t, err)
			if seen++; at == 0 && hadTurn() {
				at = seen
			}
		}
		if seen != n {
			t.Errorf("%d of %d records", seen, n)
		}
		return at > 0 && at <= 40
	})
	yields(t, func(hadTurn func() bool) (early bool) {
		for _, err := range d.Blobs().Blobs(t.Context()) {
			must(t, err)
			early = early || hadTurn()
		}
		return early
	})
}

// yields calls list, which reports whether another goroutine had a turn early. It fails the test if that never happens: at a single call, the
// scheduler may prefer a third goroutine.
func yields(t *testing.T, list func(hadTurn func() bool) (early bool)) {
	t.Helper()
	for range 20 {
		var turn atomic.Bool
		go turn.Store(true)
		if list(turn.Load) {
			return
		}
	}
	t.Error("others had no early turn")
}
