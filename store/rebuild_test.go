package store_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/storetest"
)

func TestRebuild(t *testing.T) {
	old := newWorld(t)
	one := old.keep("1", 1)
	old.keep("also 1", 1)
	two := old.keep("2", 2)
	orphan := old.keep("orphan", 3)
	broken := old.keep("broken", 4)

	w := newWorld(t)
	w.keeper = old.keeper
	delete(w.keeper, "orphan")
	for seed, d := range []modproxy.Digest{one, two, orphan, broken} {
		data, _ := storetest.Bytes(1000, byte(seed+1))
		w.put(d, data, store.Record{Ref: store.Ref{Kind: "list", Key: d.String()}})
	}
	data, _ := storetest.Bytes(1000, 5)
	w.Replace(broken, data)
	w.put(two, nil, record("2", 1, "as it is", two)) // stays
	for _, want := range []store.Verified{
		{Records: 2, Kept: store.Amount{Blobs: 2, Bytes: 2000}, Orphans: store.Amount{Blobs: 1, Bytes: 1000}, Total: 4000, Read: 4000, Damage: 1, Repaired: 1},
		{Kept: store.Amount{Blobs: 2, Bytes: 2000}, Orphans: store.Amount{Blobs: 1, Bytes: 1000}, Total: 3000, Read: 3000}, // nothing is left to do
	} {
		out, err := w.store().Rebuild(t.Context(), w.check(store.Check{}))
		if out.Seconds = 0; err != nil || out != want {
			t.Errorf("Rebuild = %+v, %v, found %q; want %+v", out, err, w.found, want)
		}
	}
	for key, d := range map[string]modproxy.Digest{"1": one, "also 1": one} {
		r, err := w.Memory.Records().Get(t.Context(), store.Ref{Kind: packages, Key: key})
		_, wrong := w.keeper.Verify(t.Context(), r)
		if err != nil || !slices.Equal(r.Needs, []modproxy.Digest{d}) || wrong != nil {
			t.Errorf("%s: %+v, %v", key, r, err)
		}
	}
	r, err := w.Memory.Records().Get(t.Context(), store.Ref{Kind: packages, Key: "2"})
	if err != nil || string(r.Value) != "1 as it is" {
		t.Errorf("the record that was there: %+v, %v", r, err)
	}
	if len(w.Evidence()) != 1 {
		t.Errorf("%d were set aside", len(w.Evidence()))
	}
}

func TestRebuildFails(t *testing.T) {
	w := newWorld(t)
	d := w.keep("1", 1)
	if err := w.Memory.Records().Delete(t.Context(), store.Ref{Kind: packages, Key: "1"}, 1); err != nil {
		t.Fatal(d, err)
	}
	full := errors.New("full")
	w.Fail(full)
	if _, err := w.store().Rebuild(t.Context(), w.check(store.Check{})); !errors.Is(err, full) {
		t.Errorf("Rebuild = %v, want %v", err, full)
	}
}
