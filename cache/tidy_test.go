package cache_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/cachetest"
)

// orphan puts a blob that no record is of.
func (f *fixture) orphan(t *testing.T, n int) modproxy.Digest {
	t.Helper()
	data, digest := cachetest.Bytes(n, 200)
	if err := f.blobs.Put(t.Context(), digest, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	return digest
}

func TestTidy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 0)
		for i := range 5 {
			f.fetch(t, fmt.Sprintf("100.%d.0", i))
			time.Sleep(time.Second)
		}
		old := f.orphan(t, 77)
		time.Sleep(time.Hour)
		f.restart(t) // which counts them
		young := f.orphan(t, 78)
		removed := cache.Tidied{
			Orphans: cache.Removed{Packages: 1, Bytes: 77}, Evicted: cache.Removed{Packages: 3, Bytes: 300}, Kept: 278,
		}
		for _, dry := range []bool{true, false} {
			got, err := f.Tidy(t.Context(), cache.Tidy{MaxSize: 299, OrphanAge: time.Hour, DryRun: dry})
			if got != removed || err != nil {
				t.Errorf("dry run %v: %+v, %v; want %+v", dry, got, err, removed)
			}
			if _, err := f.blobs.Stat(old); (err == nil) != dry {
				t.Errorf("dry run %v: an old orphan: %v", dry, err)
			}
		}
		if _, err := f.blobs.Stat(young); err != nil {
			t.Errorf("a young orphan: %v", err)
		}
		equal(t, "there", f.there(t), "100.3.0 100.4.0")
		f.fetch(t, "100.0.0")
		equal(t, "damaged", f.events.count(cache.BlobDamaged), 0)
	})
}

// What is about to have a record, is read, or may have a record that cannot be
// read, is no orphan.
func TestTidyIsCareful(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 0)
		tidy := func(want int) {
			t.Helper()
			got, err := f.Tidy(t.Context(), cache.Tidy{MaxSize: 1})
			if got.Orphans.Packages+got.Evicted.Packages != want || err != nil {
				t.Errorf("%+v, %v; want %d removed", got, err, want)
			}
		}
		// A blob that is there already, and whose first record is on its way.
		data := append(make([]byte, 93), "100.0.0"...)
		if err := f.blobs.Put(t.Context(), digestOf(data), bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		f.Registry.Index = hooked{f.index, func() { tidy(0) }}
		f.fetch(t, "100.0.0")
		synctest.Wait() // nothing reads the index
		f.Registry.Index = f.index
		p, err := f.Package(t.Context(), vpc.At("100.0.0"))
		if err != nil {
			t.Fatal(err)
		}
		tidy(0)
		p.Close()
		f.index.Fail(errors.New("broken"))
		if _, err := f.Tidy(t.Context(), cache.Tidy{}); err == nil {
			t.Error("records that cannot be read")
		}
		f.index.Fail(nil)
		tidy(1)
		equal(t, "there", f.there(t), "")
	})
}

// hooked is an index that calls back before a record is put.
type hooked struct {
	cache.Index
	before func()
}

func (x hooked) PutPackage(m modproxy.Module, version string, rec cache.PackageRecord) error {
	x.before()
	return x.Index.PutPackage(m, version, rec)
}

func TestDiscard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 0)
		f.Registry.Memory = 1 << 20 // what is in memory goes, too
		for _, version := range []string{"100.1.0+a", "100.1.0+b", "100.2.0"} {
			f.fetch(t, version)
		}
		if _, err := f.Discard(t.Context(), vpc, "1.0.0"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("one that was never kept: %v", err)
		}
		p, err := f.Package(t.Context(), vpc.At("100.1.0+a"))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		got, err := f.Discard(t.Context(), vpc, "100.1.0+a")
		if len(got) != 1 || !got[0].There || strings.Join(got[0].Shared, "") != vpc.String()+" 100.1.0+b" || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		equal(t, "there", f.there(t), "100.1.0+a 100.1.0+b 100.2.0") // the bytes, of both
		for l, err := range f.List(t.Context(), nil, vpc) {
			if there := l.Version != "100.1.0+a"; l.There != there || l.Evicted == there || err != nil {
				t.Errorf("%+v, %v", l, err)
			}
		}
		if got, err := f.Discard(t.Context(), vpc, "100.1.0+a"); len(got) != 1 || got[0].There || err != nil {
			t.Errorf("again: %+v, %v", got, err)
		}
		f.fetch(t, "100.1.0+b") // from memory
		f.index.Fail(errors.New("broken"))
		if _, err := f.Discard(t.Context(), vpc, "100.1.0+b"); err == nil {
			t.Error("removed, and who else needs it is not known")
		}
		f.index.Fail(nil)
		got, err = f.Discard(t.Context(), vpc, "100.1.0+b")
		if len(got) != 1 || !got[0].There || got[0].Shared != nil || err != nil {
			t.Errorf("the last one: %+v, %v", got, err)
		}
		equal(t, "evicted to make room", f.events.count(cache.Evicted), 0)
		equal(t, "there", f.there(t), "100.2.0")
		if data, err := io.ReadAll(p); len(data) != 100 || err != nil {
			t.Errorf("who reads: %d bytes, %v", len(data), err)
		}
		for l, err := range f.List(t.Context(), nil, vpc) {
			if there := l.Version == "100.2.0"; l.There != there || l.Evicted == there || l.Last.IsZero() || err != nil {
				t.Errorf("%+v, %v", l, err)
			}
		}
		asked := f.next.asked("package")
		f.next.change(func(n *next) { n.sum = "h1:other" })
		if _, err := read(f.Registry, "100.1.0+a"); !errors.Is(err, modproxy.ErrChanged) {
			t.Errorf("other content: %v", err)
		}
		equal(t, "package asked", f.next.asked("package"), asked+1)
		if got, err := f.Discard(t.Context(), vpc, ""); len(got) != 3 || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		equal(t, "there", f.there(t), "")
		f.settled(t, 0)
	})
}

func TestDiscardWhileFetching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 0)
		f.fetch(t, "100.1.0+a")
		f.sized.during = func(string) {
			if _, err := f.Discard(t.Context(), vpc, "100.1.0+a"); !errors.Is(err, modproxy.ErrUnavailable) {
				t.Errorf("while its bytes are written: %v", err)
			}
		}
		f.blobs.Replace(digestOf(append(make([]byte, 91), "100.1.0"...)), nil)
		f.restart(t)
		f.fetch(t, "100.1.0+b")
	})
}
