package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/cachetest"
)

// sized is a registry whose packages have the size that their version begins
// with, and differ; those of versions that are equal up to a plus have the same
// bytes.
type sized struct {
	*next
	during func(version string) // in the middle of a package
}

func (n *sized) Package(ctx context.Context, v modproxy.ModuleVersion) (*modproxy.Package, error) {
	version := v.Version
	now, err := n.ask(ctx, "package")
	if err != nil || now.pack != nil {
		return nil, errors.Join(err, now.pack)
	}
	content, _, _ := strings.Cut(version, "+")
	var size int
	fmt.Sscanf(content, "%d.", &size)
	data := append(make([]byte, size-len(content)), content...)
	if now.sum == "" {
		now.sum = modproxy.Sum("h1:" + digestOf(data).String())
	}
	p := &modproxy.Package{ReadSeekCloser: body{bytes.NewReader(data)}, Digest: digestOf(data), Sum: now.sum, Size: int64(size)}
	if n.during != nil {
		p.ReadSeekCloser = body{&interrupted{ReadSeeker: bytes.NewReader(data), f: func() { n.during(version) }}}
	}
	return p, nil
}

// newBounded is a fixture in which all packages together have no more than max
// bytes, and none is in memory.
func newBounded(t *testing.T, max int64) *fixture {
	f := newFixture(t)
	f.uses = &cachetest.MemoryUses{}
	f.max, f.sized = max, &sized{next: f.next}
	f.restart(t)
	return f
}

// there is which versions are there.
func (f *fixture) there(t *testing.T) string {
	t.Helper()
	var list []string
	for kept, err := range f.index.Packages(vpc) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.blobs.Stat(kept.Record.Digest); err == nil {
			list = append(list, kept.Version)
		}
	}
	return strings.Join(list, " ")
}

// settled is the usage when nothing is under way.
func (f *fixture) settled(t *testing.T, want int64) {
	t.Helper()
	synctest.Wait()
	if kept, reserved := f.Usage(); kept != want || reserved != 0 {
		t.Errorf("kept %d, reserved %d; want %d and none", kept, reserved, want)
	}
}

func TestEvictsWhatWasNotUsedForLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		for _, version := range []string{"300.1.0", "300.2.0", "300.3.0", "300.1.0", "300.4.0"} {
			f.fetch(t, version)
			time.Sleep(time.Second)
		}
		equal(t, "there", f.there(t), "300.1.0 300.3.0 300.4.0")
		f.settled(t, 900)
		before, err := f.index.Package(vpc, "300.2.0")
		equal(t, "the record", err, nil)
		equal(t, "evicted", f.events.count(cache.Evicted), 1)
		// It is fetched again when it is asked for, and that is no damage.
		if loc, err := f.Location(t.Context(), vpc.At("300.2.0")); err != nil || !loc.Kept {
			t.Errorf("location %+v, %v", loc, err)
		}
		f.fetch(t, "300.2.0")
		equal(t, "there", f.there(t), "300.1.0 300.2.0 300.4.0")
		equal(t, "damaged", f.events.count(cache.BlobDamaged), 0)
		after, err := f.index.Package(vpc, "300.2.0")
		if after != before || err != nil {
			t.Errorf("%+v, %v; want %+v", after, err, before)
		}
		f.fetch(t, "900.0.0") // all but that go
		equal(t, "there", f.there(t), "900.0.0")
		f.settled(t, 900)
	})
}

func TestEvictedMustComeBackTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.fetch(t, "600.1.0")
		time.Sleep(time.Second)
		f.fetch(t, "600.2.0")
		f.next.sum = "h1:other"
		if _, err := read(f.Registry, "600.1.0"); !errors.Is(err, modproxy.ErrChanged) {
			t.Errorf("%v, want ErrChanged", err)
		}
		equal(t, "there", f.there(t), "600.2.0")
	})
}

func TestEvictedOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.fetch(t, "600.1.0")
		time.Sleep(time.Second)
		f.fetch(t, "600.2.0")
		f.offline(t)
		if _, err := f.Location(t.Context(), vpc.At("600.1.0")); !errors.Is(err, modproxy.ErrUnavailable) || !strings.Contains(err.Error(), "evicted") {
			t.Errorf("location: %v", err)
		}
		if _, err := read(f.Registry, "600.1.0"); !errors.Is(err, modproxy.ErrUnavailable) || !strings.Contains(err.Error(), "evicted") {
			t.Errorf("package: %v", err)
		}
		f.fetch(t, "600.2.0")
		equal(t, "damaged", f.events.count(cache.BlobDamaged), 0)
	})
}

func TestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.fetch(t, "1000.0.0")
		_, err := read(f.Registry, "1001.0.0")
		if !errors.Is(err, modproxy.ErrDenied) || !strings.Contains(err.Error(), "1001 bytes") || !strings.Contains(err.Error(), "cache.max_size") {
			t.Errorf("%v", err)
		}
		equal(t, "there", f.there(t), "1000.0.0")
		f.settled(t, 1000)
	})
}

// Blobs that several versions have count once, and go for all of them.
func TestSharedBlobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		for _, version := range []string{"600.1.0+a", "600.1.0+b", "400.1.0"} {
			f.fetch(t, version)
			time.Sleep(time.Second)
		}
		f.settled(t, 1000)
		f.fetch(t, "400.2.0")
		equal(t, "there", f.there(t), "400.1.0 400.2.0")
		f.settled(t, 800)
		f.fetch(t, "600.1.0+b")
		equal(t, "there", f.there(t), "400.2.0 600.1.0+a 600.1.0+b")
		f.fetch(t, "600.1.0+a")
		equal(t, "package asked", f.next.asked("package"), 5)
		f.settled(t, 1000)
	})
}

// However many are fetched at once, they have no more than the bound together,
// on the way or there; who comes second waits for who can go.
func TestConcurrentFetchesKeepTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.sized.during = func(string) {
			var sum int64
			for blob := range f.blobs.All() {
				sum += blob.Size
			}
			if kept, reserved := f.Usage(); kept+reserved > 1000 || sum > 1000 || reserved == 0 {
				t.Errorf("kept %d (%d there), reserved %d", kept, sum, reserved)
			}
			time.Sleep(time.Second)
		}
		f.restart(t)
		for i := range 20 {
			go f.fetchSize(t, fmt.Sprintf("%d.%d.0", 100+i*40, i))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := f.next.asked("package"); n < 20 { // more, where one was evicted at once
			t.Errorf("%d packages asked for", n)
		}
		f.sized.during = nil
		if kept, reserved := f.Usage(); kept > 1000 || kept == 0 || reserved != 0 {
			t.Errorf("kept %d, reserved %d", kept, reserved)
		}
	})
}

// fetchSize fetches, and bears that what was fetched is evicted at once.
func (f *fixture) fetchSize(t *testing.T, version string) {
	if _, err := read(f.Registry, version); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A fetch that fails gives back what it reserved, however it fails.
func TestReservationsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		fails := map[string]func(){
			"blob":   func() { f.blobs.Fail(errors.New("broken")) },
			"record": func() { f.index.Fail(errors.New("broken")) },
			"panic":  func() { panic("broken") },
		}
		for name, fail := range fails {
			f.sized.during = func(string) { fail() }
			f.restart(t)
			if _, err := read(f.Registry, "900.0.0"); err == nil {
				t.Errorf("%s: it did not fail", name)
			}
			f.blobs.Fail(nil)
			f.index.Fail(nil)
			synctest.Wait()
			if _, reserved := f.Usage(); reserved != 0 {
				t.Errorf("%s: %d bytes are reserved", name, reserved)
			}
			f.sized.during = nil
			f.restart(t)
			f.fetch(t, "901.0.0")
		}
	})
}

func TestUsesSurvive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		for _, version := range []string{"300.1.0", "300.2.0", "300.3.0", "300.1.0"} {
			f.fetch(t, version)
			time.Sleep(time.Second)
		}
		f.restart(t)
		f.fetch(t, "300.4.0")
		equal(t, "there", f.there(t), "300.1.0 300.3.0 300.4.0")
		f.max = 700
		f.restart(t)
		f.Start()
		synctest.Wait()
		equal(t, "there under a lower bound", f.there(t), "300.1.0 300.4.0")
		// What was evicted before the restart is not taken for damaged after it.
		f.fetch(t, "300.3.0")
		equal(t, "damaged", f.events.count(cache.BlobDamaged), 0)
	})
}

// Uses are written now and then, all at once, and not for every request.
func TestUsesAreWrittenNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 0)
		for i := range 1000 {
			f.fetch(t, fmt.Sprintf("100.%d.0", i%10))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if puts := f.uses.Puts(); puts < 2 || puts > 4 {
			t.Errorf("written %d times in %v", puts, 1000*time.Second)
		}
		before := f.uses.Puts()
		f.restart(t)
		equal(t, "written at the end", f.uses.Puts(), before+1)
		f.restart(t)
		equal(t, "written when nothing was used", f.uses.Puts(), before+1)
	})
}

// A disk that is full, or read-only for now, fails the fetch, not what is kept, and
// passes.
func TestStorageIsFull(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS} {
		testStorageIsFull(t, errno)
	}
}

func testStorageIsFull(t *testing.T, errno syscall.Errno) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 0)
		f.fetch(t, "300.1.0")
		full := &fs.PathError{Op: "write", Path: "x", Err: errno}
		var noSpace *modproxy.NoSpace
		for _, fail := range []func(error){f.blobs.Fail, f.index.Fail, func(err error) { f.next.change(func(n *next) { n.pack = err }) }} {
			f.sized.during = nil
			if fail(full); true {
				if _, err := read(f.Registry, "300.2.0"); !errors.As(err, &noSpace) || !errors.Is(err, modproxy.ErrUnavailable) {
					t.Errorf("%v, want NoSpace", err)
				}
			}
			f.index.Fail(nil)
			f.fetch(t, "300.1.0")
			fail(nil)
			time.Sleep(5 * time.Second)
		}
		f.fetch(t, "300.2.0")
	})
}

// Where there is no room for the mark, removing is what makes some.
func TestEvictsOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.fetch(t, "600.1.0")
		f.uses.Fail(syscall.ENOSPC)
		f.fetch(t, "600.2.0")
		equal(t, "there", f.there(t), "600.2.0")
		f.uses.Fail(errors.New("broken"))
		if _, err := read(f.Registry, "600.3.0"); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("%v", err)
		}
		equal(t, "there", f.there(t), "600.2.0")
		f.settled(t, 600)
		f.uses.Fail(nil)
		f.restart(t)
		if data := f.fetch(t, "600.1.0"); !bytes.HasSuffix(data, []byte("600.1.0")) {
			t.Error("other bytes")
		}
		equal(t, "damaged", f.events.count(cache.BlobDamaged), 0)
	})
}

// The mark of what was evicted is gone before who asks for it again has an answer.
func TestFetchEndsTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		marked := func() (list []modproxy.Digest) {
			for use, err := range f.uses.Uses() {
				if err != nil {
					t.Fatal(err)
				}
				if use.Evicted {
					list = append(list, use.Digest)
				}
			}
			return list
		}
		for _, version := range []string{"600.1.0", "600.2.0", "600.1.0", "600.1.0+b"} {
			f.fetch(t, version)
		}
		rec, err := f.index.Package(vpc, "600.2.0")
		if got := marked(); len(got) != 1 || got[0] != rec.Digest || err != nil {
			t.Errorf("marked: %v, %v; want %v", got, err, rec.Digest)
		}
	})
}
