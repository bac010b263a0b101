package storetest

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

func testRecords(t *testing.T, open func(t *testing.T, n int) []Handle) {
	two := func(t *testing.T) (a, b Handle) {
		handles := open(t, 2)
		return handles[0], handles[1]
	}
	t.Run("absent", func(t *testing.T) {
		a, b := two(t)
		a.put(t, store.Record{Ref: ref, Value: []byte("{}")})
		for _, kind := range []store.Kind{ref.Kind, ref.Kind + "s", "module"} {
			for _, key := range []string{"registry", ref.Key + "0", ref.Key + "\x00", strings.ToUpper(ref.Key), "\x00" + ref.Key, "s\x00" + ref.Key} {
				b.lacks(t, store.Ref{Kind: kind, Key: key})
			}
		}
		b.lacks(t, store.Ref{Kind: "module-packages", Key: ref.Key})
		must(t, b.Records.Delete(t.Context(), store.Ref{Kind: "a", Key: "b"}, 7))
	})
	t.Run("kept", func(t *testing.T) {
		a, b := two(t)
		d, e := a.putBlob(t, 10, 1), a.putBlob(t, 20, 2)
		for i, r := range []store.Record{
			{Value: []byte(`{"a": "<&>\n"}` + "\n\n"), Needs: []modproxy.Digest{d, e}},
			{Value: []byte("\x00\xff")},
			{Needs: []modproxy.Digest{e}},
			{Value: make([]byte, 3<<20)},
		} {
			for _, key := range []string{fmt.Sprint(i), fmt.Sprint("\x00\xff\n", i), strings.Repeat("k", 1024-1) + fmt.Sprint(i)} {
				r.Ref = store.Ref{Kind: "a", Key: key}
				b.holds(t, a.put(t, r))
			}
		}
	})
	t.Run("values are not shared", func(t *testing.T) {
		a, b := two(t)
		value := []byte("as it was")
		a.put(t, store.Record{Ref: ref, Value: value})
		copy(value, "changed")
		r, err := b.Records.Get(t.Context(), ref)
		must(t, err)
		copy(r.Value, "changed")
		if r, err = b.Records.Get(t.Context(), ref); err != nil || string(r.Value) != "as it was" {
			t.Errorf("Value = %q, %v", r.Value, err)
		}
	})
	t.Run("out of bounds", func(t *testing.T) {
		a, _ := two(t)
		for _, r := range []store.Record{
			{Ref: store.Ref{Kind: "a"}}, {Ref: store.Ref{Key: "k"}},
			{Ref: store.Ref{Kind: "a", Key: strings.Repeat("k", 1025)}},
			{Ref: ref, Value: make([]byte, 64<<20+1)},
		} {
			_, err := a.Records.Put(t.Context(), r)
			wantError(t, fmt.Sprintf("Put of %.20q", r.Ref), err, modproxy.ErrInvalid)
		}
	})
	t.Run("compare and swap", func(t *testing.T) { testSwap(t, open(t, 2)) })
	t.Run("needs", func(t *testing.T) {
		a, b := two(t)
		_, absent := Bytes(30, 3)
		r := store.Record{Ref: ref, Value: []byte("x"), Needs: []modproxy.Digest{a.putBlob(t, 10, 1), absent}}
		_, err := b.Records.Put(t.Context(), r)
		wantError(t, "Put of a record whose blob is absent", err, fs.ErrNotExist)
		b.lacks(t, ref)
		a.putBlob(t, 30, 3)
		r = b.put(t, r)
		old := r.Revision
		r.Revision = 0
		r.Needs = []modproxy.Digest{{1}}
		_, err = b.Records.Put(t.Context(), r)
		wantError(t, "Put of an old revision whose blob is absent", err, store.ErrConflict)
		wantNeeding(t, a, absent, ref)
		r.Revision, r.Needs = old, r.Needs[:0]
		b.put(t, r)
		wantNeeding(t, a, absent)
	})
	t.Run("needing", func(t *testing.T) {
		a, b := two(t)
		d, e := a.putBlob(t, 10, 1), a.putBlob(t, 20, 2)
		one := a.put(t, store.Record{Ref: store.Ref{Kind: "a", Key: "one"}, Value: []byte("x"), Needs: []modproxy.Digest{d}})
		a.put(t, store.Record{Ref: store.Ref{Kind: "b", Key: "two"}, Needs: []modproxy.Digest{e, d}})
		wantNeeding(t, b, d, one.Ref, store.Ref{Kind: "b", Key: "two"})
		wantNeeding(t, b, e, store.Ref{Kind: "b", Key: "two"})
		must(t, b.Records.Delete(t.Context(), one.Ref, one.Revision))
		wantNeeding(t, a, d, store.Ref{Kind: "b", Key: "two"})
	})
	t.Run("damaged", func(t *testing.T) { testDamaged(t, open(t, 2)) })
}

func testSwap(t *testing.T, handles []Handle) {
	ctx := t.Context()
	a, b := handles[0], handles[1]
	_, err := a.Records.Put(ctx, store.Record{Ref: ref, Revision: 1})
	wantError(t, "Put of revision 1 of a new record", err, store.ErrConflict)
	seen := map[uint64]bool{}
	r := a.put(t, store.Record{Ref: ref, Value: []byte("0")})
	for range 3 {
		old := r
		r = b.put(t, r)
		if seen[r.Revision] {
			t.Errorf("revision %d came twice", r.Revision)
		}
		seen[r.Revision] = true
		for _, revision := range []uint64{0, old.Revision, r.Revision + 1} {
			_, err := a.Records.Put(ctx, store.Record{Ref: ref, Value: []byte("other"), Revision: revision})
			wantError(t, "Put of another revision", err, store.ErrConflict)
			wantError(t, "Delete of another revision", a.Records.Delete(ctx, ref, revision), store.ErrConflict)
		}
		a.holds(t, r)
		must(t, a.Records.Delete(ctx, ref, r.Revision))
		b.lacks(t, ref)
		_, err := b.Records.Put(ctx, r)
		wantError(t, "Put of a revision that was deleted", err, store.ErrConflict)
		r.Revision = 0
		r = b.put(t, r)
	}
}

func wantNeeding(t *testing.T, h Handle, d modproxy.Digest, want ...store.Ref) {
	t.Helper()
	got, err := h.Records.Needing(t.Context(), d)
	must(t, err)
	missing := map[store.Ref]bool{}
	for _, ref := range want {
		missing[ref] = true
	}
	for _, r := range got {
		is, err := h.Records.Get(t.Context(), r.Ref)
		is.Value = nil
		if err == nil && !sameRecord(is, r) || errors.Is(err, store.ErrDamaged) && r.Revision != 0 {
			t.Errorf("Needing has %+v, and Get %+v, %v", r, is, err)
		}
		if !missing[r.Ref] {
			t.Errorf("Needing has %v", r.Ref)
		}
		delete(missing, r.Ref)
	}
	for ref := range missing {
		t.Errorf("Needing lacks %v", ref)
	}
}

func testDamaged(t *testing.T, handles []Handle) {
	ctx := t.Context()
	a, b := handles[0], handles[1]
	d := a.putBlob(t, 10, 1)
	damaged := func() store.Record {
		r := a.put(t, store.Record{Ref: ref, Value: []byte("as it was"), Needs: []modproxy.Digest{d}})
		a.Damage(t, ref)
		_, err := b.Records.Get(ctx, ref)
		wantError(t, "Get of a damaged record", err, store.ErrDamaged)
		return r
	}
	r := damaged()
	wantNeeding(t, b, d, ref)
	a.put(t, store.Record{Ref: store.Ref{Kind: ref.Kind, Key: ref.Key + "1"}})
	n := 0
	for r, err := range b.Records.List(ctx, ref.Kind, "") {
		if n++; r.Ref == ref {
			wantError(t, "List", err, store.ErrDamaged)
		} else {
			must(t, err)
		}
	}
	if n != 2 {
		t.Errorf("List yielded %d records, want 2", n)
	}
	if got, err := b.Blobs.Remove(ctx, store.Collect, d); err != nil || len(got) != 0 {
		t.Errorf("Collect of a blob that a damaged record needs = %v, %v", got, err)
	}
	_, err := b.Records.Put(ctx, r)
	wantError(t, "Put of the revision that a damaged record had", err, store.ErrConflict)
	wantError(t, "Delete of the revision that a damaged record had", b.Records.Delete(ctx, ref, r.Revision), store.ErrConflict)
	r.Revision = 0
	r.Needs = nil
	r = b.put(t, r)
	a.holds(t, r)
	wantNeeding(t, a, d)
	must(t, a.Records.Delete(ctx, ref, r.Revision))

	damaged()
	must(t, b.Records.Delete(ctx, ref, 0))
	a.lacks(t, ref)
	wantNeeding(t, a, d)

	damaged()
	if got, err := b.Blobs.Remove(ctx, store.Evict, d); err != nil || len(got) != 1 {
		t.Errorf("Evict of a blob that a damaged record needs = %v, %v", got, err)
	}
	a.lacks(t, ref)
	a.lacksBlob(t, d)
}
