package cache_test

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/store/storetest"
)

// What one registry removes, replaces or refreshes, and what no longer counts, another one
// over the same storage does not serve any more five seconds later, from memory or not.
func TestTwoRegistriesOverOneStore(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) storetest.Handle{
		"memory": func(*testing.T) storetest.Handle { return (&storetest.Memory{}).Handle() },
		"disk": func(t *testing.T) storetest.Handle {
			s, err := disk.Open(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return storetest.Handle{Records: s.Records(), Blobs: s.Blobs(), Quarantine: s}
		},
	} {
		for what, memory := range map[string]int64{"hot": 0, "cold": -1} {
			t.Run(name+" "+what, func(t *testing.T) {
				h := open(t)
				synctest.Test(t, func(t *testing.T) { testTwoRegistries(t, h, memory) })
			})
		}
	}
}

func testTwoRegistries(t *testing.T, h storetest.Handle, memory int64) {
	from := &next{script: script{listed: "1.0.0"}}
	from.content, _ = storetest.Bytes(1000, 1)
	book := ledgertest.NewMemory()
	one, two, away := newRegistry(h, book, from, memory), newRegistry(h, book, from, memory), newRegistry(h, book, nil, memory)
	for _, r := range []*cache.Registry{one, two, away} {
		defer mustClose(t, r)
	}
	remembered := func(when string) {
		t.Helper()
		for _, r := range []*cache.Registry{one, two, away} {
			if _, err := read(r, "1.0.0"); err != nil {
				t.Errorf("%s: %v", when, err)
			}
			if _, err := r.Versions(t.Context(), vpc); err != nil {
				t.Errorf("%s: versions: %v", when, err)
			}
		}
	}
	remembered("at first")
	if _, err := read(one, "1.0.0+b"); err != nil { // the same bytes
		t.Fatal(err)
	}

	// Refreshed.
	from.change(func(n *next) { n.listed = "1.0.0 2.0.0" })
	if _, err := one.Refresh(t.Context(), vpc); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
	for _, r := range []*cache.Registry{two, away} {
		v, err := r.Versions(t.Context(), vpc)
		if err != nil {
			t.Fatal(err)
		}
		if _, listed := v.Find("2.0.0"); listed != (r == two) { // offline what is not kept is not listed
			t.Errorf("refreshed, and 2.0.0 is listed: %v", listed)
		}
	}
	equal(t, "asked for versions", from.asked("versions"), 2)

	// Removed, and the bytes stay; then removed with the bytes.
	for _, versions := range [][]string{{"1.0.0"}, {"1.0.0", "1.0.0+b"}} {
		for _, version := range versions {
			if _, err := one.Discard(t.Context(), vpc.At(version)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		if _, err := read(away, "1.0.0"); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("removed %v, and served: %v", versions, err)
		}
		asked := from.asked("package")
		if _, err := read(two, "1.0.0"); err != nil || from.asked("package") != asked+1 {
			t.Errorf("removed %v, and fetched again %d times: %v", versions, from.asked("package")-asked, err)
		}
		remembered("fetched again")
	}

	// Superseded.
	after, _ := storetest.Bytes(1000, 2)
	f := &fixture{next: from, ledger: book}
	from.change(func(n *next) { n.content = after })
	f.accept(t, "1.0.0")
	time.Sleep(5 * time.Second)
	if _, err := read(away, "1.0.0"); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("superseded, and served: %v", err)
	}
	if got, err := read(two, "1.0.0"); !bytes.Equal(got, after) || err != nil {
		t.Errorf("superseded, and %d bytes served: %v", len(got), err)
	}
}
