package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/modproxy/modproxy/store"
)

func testList(t *testing.T, open func(t *testing.T, n int) []Handle) {
	t.Run("order", func(t *testing.T) {
		handles := open(t, 2)
		a, b := handles[0], handles[1]
		for _, kind := range []store.Kind{"ab", "a", "b"} {
			for _, key := range []string{"k/2", "k/10", "k", "k/1", "l"} {
				a.put(t, store.Record{Ref: store.Ref{Kind: kind, Key: key}, Value: []byte(kind)})
			}
		}
		for prefix, want := range map[string]string{
			"": "k k/1 k/10 k/2 l", "k": "k k/1 k/10 k/2", "k/1": "k/1 k/10", "k/3": "", "m": "", "l\x00": "",
		} {
			if got := b.list(t, "a", prefix); got != want {
				t.Errorf("List of %q: %q, want %q", prefix, got, want)
			}
		}
		if got := b.list(t, "c", ""); got != "" {
			t.Errorf("List of an unknown kind: %q", got)
		}
		kinds := map[store.Kind]int{}
		for r, err := range b.Records.List(t.Context(), "", "") {
			must(t, err)
			if kinds[r.Kind]++; string(r.Value) != string(r.Kind) {
				t.Errorf("%v has the value %q", r.Ref, r.Value)
			}
		}
		if len(kinds) != 3 || kinds["a"] != 5 || kinds["ab"] != 5 || kinds["b"] != 5 {
			t.Errorf("List of every kind: %v", kinds)
		}
		for range b.Records.List(t.Context(), "", "") {
			break // the iterator must accept it
		}
	})
	t.Run("while it changes", func(t *testing.T) {
		handles := open(t, 2)
		a, b := handles[0], handles[1]
		const n = 300 // more than a storage reads at a time
		for i := range n {
			a.put(t, store.Record{Ref: store.Ref{Kind: "a", Key: fmt.Sprintf("1.%03d", i)}})
		}
		seen := map[string]int{}
		for r, err := range b.Records.List(t.Context(), "a", "1.") {
			must(t, err)
			if seen[r.Key]++; len(seen)%100 == 1 {
				a.put(t, store.Record{Ref: store.Ref{Kind: "a", Key: fmt.Sprintf("2.%d", len(seen))}})
			}
			must(t, b.Records.Delete(t.Context(), r.Ref, r.Revision))
		}
		for i := range n {
			if key := fmt.Sprintf("1.%03d", i); seen[key] != 1 {
				t.Errorf("%s was yielded %d times", key, seen[key])
			}
		}
		if got := b.list(t, "a", "1."); got != "" {
			t.Errorf("after all were deleted: %q", got)
		}
	})
	t.Run("context ends", func(t *testing.T) {
		a := open(t, 1)[0]
		for i := range 3 {
			a.put(t, store.Record{Ref: store.Ref{Kind: "a", Key: fmt.Sprint(i)}})
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got []error
		for _, err := range a.Records.List(ctx, "a", "") {
			got = append(got, err)
			cancel()
		}
		if len(got) != 2 || got[0] != nil || !errors.Is(got[1], context.Canceled) {
			t.Errorf("List yielded %v", got)
		}
	})
}
