package store_test

import (
	"context"
	"errors"
	"io"
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

// failing is a keeper that cannot begin a rebuild, or fails for a blob.
type failing struct {
	keeper
	begins bool
}

var errNoLedger = errors.New("no ledger")

func (k failing) Rebuild(context.Context) (store.Rebuilder, error) {
	if !k.begins {
		return nil, errNoLedger
	}
	return func(context.Context, modproxy.Digest, int64, io.Reader) ([]store.Record, error) {
		return nil, errNoLedger
	}, nil
}

// If a kind cannot tell whether a blob is its own, the blob does not count as an orphan. A damaged blob is reported
// nevertheless.
func TestRebuildWithoutItsKeeper(t *testing.T) {
	for name, run := range map[string]func(*store.Store, store.Check) (store.Verified, error){
		"rebuild": func(s *store.Store, c store.Check) (store.Verified, error) { return s.Rebuild(t.Context(), c) },
		"verify": func(s *store.Store, c store.Check) (store.Verified, error) {
			c.Data, c.Repair = true, true
			return s.Verify(t.Context(), c)
		},
	} {
		for _, c := range []struct{ begins, damaged bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
			var want error
			if !c.damaged {
				want = errNoLedger
			}
			w := newWorld(t)
			data, d := storetest.Bytes(1000, 1)
			w.put(d, data, store.Record{Ref: store.Ref{Kind: "list", Key: "a"}})
			if c.damaged {
				w.Replace(d, make([]byte, 1000))
			}
			s := w.store()
			s.Kinds = map[store.Kind]store.Codec{packages: failing{w.keeper, c.begins}}
			out, err := run(s, w.check(store.Check{}))
			if !errors.Is(err, want) || out.Orphans.Blobs != 0 || (out.Damage == 1) != c.damaged {
				t.Errorf("%s, %+v: %+v, %v", name, c, out, err)
			}
		}
	}
}
