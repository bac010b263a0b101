package cache_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/store"
)

func sumOfReader(r io.Reader) (modproxy.Sum, error) {
	data, err := io.ReadAll(r)
	return sumOf(data), err
}

func (f *fixture) keeper() *cache.PackageCodec {
	return &cache.PackageCodec{Ledger: f.ledger, Sum: sumOfReader}
}

func (f *fixture) packageRecords(t *testing.T) (list []store.Record) {
	t.Helper()
	for rec, err := range f.storage.Records().List(t.Context(), cache.PackageKind, "") {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, rec)
	}
	return list
}

func verify(t *testing.T, k *cache.PackageCodec, r store.Record) error {
	_, err := k.Verify(t.Context(), r)
	return err
}

// What a package is kept as has to be what the ledger says, and what its bytes say.
func TestKeeperVerifies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		content := f.fetch(t, "1.0.0")
		k := f.keeper()
		rec := f.packageRecords(t)[0]
		if err := errors.Join(verify(t, k, rec), k.VerifyData(t.Context(), rec, digestOf(content), bytes.NewReader(content))); err != nil {
			t.Error(err)
		}
		if err := k.VerifyData(t.Context(), rec, digestOf(content), bytes.NewReader(content[1:])); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("other content: %v", err)
		}
		unknown := rec
		unknown.Key += "-other"
		if err := verify(t, k, unknown); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("not in the ledger: %v", err)
		}
		unknown.Value = []byte("{")
		if err := verify(t, k, unknown); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("no record of a package: %v", err)
		}
		f.next.change(func(n *next) { n.content = []byte("other") })
		f.accept(t, "1.0.0")
		if err := verify(t, k, rec); !errors.Is(err, modproxy.ErrChanged) {
			t.Errorf("superseded: %v", err)
		}
	})
}

// unreadable is a ledger that looks up what counts, and cannot tell what did before.
type unreadable struct{ *ledgertest.Memory }

func (unreadable) Had(context.Context, modproxy.Ref, modproxy.Sum) (bool, error) {
	return false, io.ErrClosedPipe
}

// A package is not wrong because the ledger cannot be read that may have had it.
func TestKeeperWithoutHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.fetch(t, "1.0.0")
		rec := f.packageRecords(t)[0]
		f.next.change(func(n *next) { n.content = []byte("other") })
		f.accept(t, "1.0.0")
		k := &cache.PackageCodec{Ledger: unreadable{f.ledger}, Sum: sumOfReader}
		if err := verify(t, k, rec); !errors.Is(err, io.ErrClosedPipe) || errors.Is(err, store.ErrDamaged) {
			t.Error(err)
		}
	})
}

// Records are made again from a blob and the ledger: for every version that has its
// content, and of none that had it once.
func TestKeeperRebuilds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.subdir = "modules/a"
		content := f.fetch(t, "1.0.0")
		f.fetch(t, "1.0.0+b")
		f.fetch(t, "2.0.0")
		f.next.change(func(n *next) { n.content = []byte("other") })
		f.accept(t, "2.0.0")
		rebuild, err := f.keeper().Rebuild(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		records, err := rebuild(t.Context(), digestOf(content), int64(len(content)), bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, rec := range records {
			keys = append(keys, rec.Key)
			equal(t, "needs", rec.Needs[0], digestOf(content))
		}
		slices.Sort(keys)
		if want := []string{"registry.example.com/acme/vpc/aws/1.0.0", "registry.example.com/acme/vpc/aws/1.0.0+b"}; !slices.Equal(keys, want) {
			t.Errorf("records of %q, want %q", keys, want)
		}
		if records, err := rebuild(t.Context(), digestOf(nil), 0, bytes.NewReader(nil)); len(records) > 0 || err != nil {
			t.Errorf("of a blob of nothing: %v, %v", records, err)
		}
	})
}

// Every rebuild goes by what the ledger has by then, also after one that could not read it.
func TestKeeperRebuildsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Registry.Store.Kinds = map[store.Kind]store.Codec{cache.PackageKind: f.keeper(), cache.VersionsKind: nil}
		repair := func(want int, wantErr error) {
			t.Helper()
			for _, rec := range f.packageRecords(t) {
				if err := f.storage.Records().Delete(t.Context(), rec.Ref, rec.Revision); err != nil {
					t.Fatal(err)
				}
			}
			out, err := f.Registry.Store.Verify(t.Context(), store.Check{Data: true, Repair: true})
			if got := len(f.packageRecords(t)); got != want || !errors.Is(err, wantErr) {
				t.Errorf("%d records, %+v, %v; want %d, %v", got, out, err, want, wantErr)
			}
		}
		f.fetch(t, "1.0.0")
		f.ledger.Fail(io.ErrClosedPipe)
		repair(0, io.ErrClosedPipe)
		f.ledger.Fail(nil)
		repair(1, nil)
		f.fetch(t, "2.0.0")
		repair(2, nil)
	})
}

// A ledger that is an older copy learns from stored packages, and the recorded content is not forgotten.
func TestLedgerBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.subdir = "modules/a"
		f.fetch(t, "1.0.0")
		f.ledger = ledgertest.NewMemory()
		f.offline(t)
		f.fetch(t, "1.0.0")
		equal(t, "told", f.events.count(cache.LedgerBehind), 1)
		rec, err := f.ledger.Lookup(t.Context(), vpc.At("1.0.0"))
		if err != nil || rec.Sum != sumOf(f.next.content) || rec.Subdir != "modules/a" || rec.Time.After(time.Now()) {
			t.Errorf("%+v, %v", rec, err)
		}
	})
}

// A directory whose name begins with a dot is the one that is recorded, for stored and rebuilt packages.
func TestHiddenDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.subdir = ".github/modules/a"
		content := f.fetch(t, "1.0.0")
		p, err := f.Package(t.Context(), vpc.At("1.0.0"))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "subdir", p.Subdir, f.next.subdir)
		rebuild, err := f.keeper().Rebuild(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		list, err := rebuild(t.Context(), digestOf(content), int64(len(content)), bytes.NewReader(content))
		if err = errors.Join(err, p.Close()); err != nil || len(list) != 1 || !bytes.Contains(list[0].Value, []byte(`".github/modules/a"`)) {
			t.Errorf("%+v, %v", list, err)
		}
	})
}
