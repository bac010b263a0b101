package cache_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/cachetest"
)

// blind is an index that does not tell what it has while it is shut.
type blind struct {
	cache.Index
	shut atomic.Bool
}

func (x *blind) Package(m modproxy.Module, version string) (cache.PackageRecord, error) {
	if x.shut.Load() {
		return cache.PackageRecord{}, fs.ErrNotExist
	}
	return x.Index.Package(m, version)
}

func (x *blind) PutPackage(m modproxy.Module, version string, rec cache.PackageRecord) error {
	if x.shut.Swap(false) {
		x.Index = &cachetest.MemoryIndex{}
	}
	return x.Index.PutPackage(m, version, rec)
}

// Versions is absent: Index is not looked at while PutPackage replaces it.
func (x *blind) Versions(modproxy.Module) (cache.VersionsRecord, error) {
	return cache.VersionsRecord{}, fs.ErrNotExist
}

// What counts for a version changes, and the index says so: who asks is answered
// from memory until it is told to look again.
func TestForget(t *testing.T) {
	type about struct {
		modproxy.Module
		version string
	}
	for _, what := range []about{{vpc, "1.0.0"}, {vpc, ""}, {}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			x := &blind{Index: f.Registry.Index}
			f.Registry.Index = x
			forget := func() { f.Forget(what.Module, what.version) }
			before := f.fetch(t, "1.0.0")
			x.shut.Store(true)
			after, _ := cachetest.Bytes(1000, 2)
			f.next.change(func(n *next) { n.content = after })
			if !bytes.Equal(f.fetch(t, "1.0.0"), before) {
				t.Error("it was fetched again")
			}
			forget()
			if !bytes.Equal(f.fetch(t, "1.0.0"), after) {
				t.Error("it was not fetched again")
			}

			// Why it could not be fetched is forgotten, too.
			x.shut.Store(true)
			f.next.change(func(n *next) { n.pack = modproxy.ErrChanged })
			forget()
			if _, err := read(f.Registry, "1.0.0"); err == nil {
				t.Error("it was served all the same")
			}
			f.next.change(func(n *next) { n.pack = nil })
			forget()
			f.fetch(t, "1.0.0")
		})
	}
}

// A fetch that was under way brings what counted before.
func TestForgetWhileFetching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		x := &blind{Index: f.Registry.Index}
		f.Registry.Index = x
		f.next.delay = time.Minute
		go read(f.Registry, "1.0.0") // its error is none of this
		time.Sleep(time.Second)
		f.Forget(vpc, "1.0.0")
		time.Sleep(time.Hour)
		x.shut.Store(true)
		asked := f.next.asked("package")
		f.fetch(t, "1.0.0")
		equal(t, "packages asked for", f.next.asked("package"), asked+1)
	})
}

// statTold is blobs that are told of when somebody looks at one.
type statTold struct {
	*cachetest.MemoryBlobs
	told func()
}

func (b *statTold) Stat(d modproxy.Digest) (int64, error) {
	if told := b.told; told != nil {
		b.told = nil
		told()
	}
	return b.MemoryBlobs.Stat(d)
}

// So does a question that has read the record, and not answered yet.
func TestForgetWhileLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		before := f.fetch(t, "1.0.0")
		f.restart(t)
		x := &blind{Index: f.Registry.Index}
		b := &statTold{MemoryBlobs: f.blobs}
		f.Registry.Index, f.Registry.Blobs = x, b
		b.told = func() {
			x.shut.Store(true)
			f.Forget(vpc, "1.0.0")
		}
		after, _ := cachetest.Bytes(1000, 2)
		f.next.change(func(n *next) { n.content = after })
		if _, err := f.Location(t.Context(), vpc.At("1.0.0")); err != nil {
			t.Error(err)
		}
		if got := f.fetch(t, "1.0.0"); bytes.Equal(got, before) || b.told != nil {
			t.Error("what counted before is served")
		}
	})
}

// It is no matter how many other questions are under way.
func TestForgetWhileMuchIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		x := &blind{Index: f.Registry.Index}
		f.Registry.Index = x
		f.next.delay = 30 * time.Second
		go read(f.Registry, "1.0.0") // its error is none of this
		for i := range 2000 {
			m := vpc
			m.Name = fmt.Sprintf("m%d", i)
			go f.Versions(t.Context(), m) // nor theirs
		}
		time.Sleep(time.Second)
		f.Forget(vpc, "1.0.0")
		time.Sleep(time.Hour)
		x.shut.Store(true)
		asked := f.next.asked("package")
		f.fetch(t, "1.0.0")
		equal(t, "packages asked for", f.next.asked("package"), asked+1)
	})
}

// That other modules are forgotten costs nothing: what is asked is asked once, and a
// fetch that failed is not tried again before its time.
func TestForgetOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.change(func(n *next) { n.delay = 100 * time.Millisecond })
		other := vpc
		f.Start()
		for i := 0; !f.Apart(vpc, other); i++ {
			other.Name = "other-" + strconv.Itoa(i)
		}
		go func() {
			for range 300 {
				f.Forget(other, "")
				time.Sleep(30 * time.Millisecond)
			}
		}()
		f.fetch(t, "1.0.0")
		f.next.change(func(n *next) { n.pack = modproxy.ErrInvalid })
		for range 5 {
			if _, err := f.Location(t.Context(), vpc.At("1.1.0")); !errors.Is(err, modproxy.ErrInvalid) {
				t.Errorf("error %v", err)
			}
			time.Sleep(time.Second)
		}
		if locations, packages := f.next.asked("location"), f.next.asked("package"); locations != 2 || packages != 2 {
			t.Errorf("two versions: %d questions for a location, %d for a package", locations, packages)
		}
		time.Sleep(10 * time.Second)
	})
}
