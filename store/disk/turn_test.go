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
	var turn atomic.Bool
	seen, at := 0, 0
	for _, err := range d.Records().List(t.Context(), "many", "") {
		must(t, err)
		if seen++; seen == 1 {
			go turn.Store(true)
		}
		if at == 0 && turn.Load() {
			at = seen
		}
	}
	if seen != n || at == 0 || at > 40 {
		t.Errorf("others had their turn after %d of %d records", at, seen)
	}
	turn.Store(false)
	go turn.Store(true)
	for _, err := range d.Blobs().Blobs(t.Context()) {
		if must(t, err); !turn.Load() {
			t.Error("others had no turn before the first blob")
		}
	}
}
