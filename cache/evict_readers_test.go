package cache_test

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
)

// What is being read stays, and what finds no room beside it says so.
func TestReadersKeepTheirPackages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.fetch(t, "600.1.0")
		p, err := f.Package(t.Context(), vpc.At("600.1.0"))
		if err != nil {
			t.Fatal(err)
		}
		var full *modproxy.NoSpace
		if _, err := read(f.Registry, "600.2.0"); !errors.As(err, &full) || !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("%v, want NoSpace", err)
		}
		time.Sleep(time.Second)
		f.fetch(t, "400.1.0") // there is room for this one
		if data, err := io.ReadAll(p); len(data) != 600 || err != nil {
			t.Errorf("%d bytes, %v", len(data), err)
		}
		p.Close()
		p.Close()
		time.Sleep(5 * time.Second)
		f.fetch(t, "600.2.0")
		equal(t, "there", f.there(t), "400.1.0 600.2.0")
		f.settled(t, 1000)
	})
}

// Readers of what is too small to help come and go all the time: who waits for room
// is told that there is none no later than if nobody did.
func TestReadersThatEndDoNotProlongTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.fetch(t, "600.1.0")
		f.fetch(t, "400.1.0")
		p, err := f.Package(t.Context(), vpc.At("600.1.0"))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		var end atomic.Bool
		var readers sync.WaitGroup
		defer readers.Wait()
		defer end.Store(true)
		readers.Go(func() {
			for !end.Load() {
				f.fetch(t, "400.1.0")
				time.Sleep(time.Second)
			}
		})
		began := time.Now()
		var full *modproxy.NoSpace
		if _, err := read(f.Registry, "1000.1.0"); !errors.As(err, &full) {
			t.Errorf("%v, want NoSpace", err)
		}
		equal(t, "waited", time.Since(began), 10*time.Second)
	})
}

// How long a fetch has waited for other fetches is nothing to do with how long it
// waits for readers.
func TestReadersAreWaitedForAfterFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.fetch(t, "600.1.0")
		f.sized.during = func(version string) {
			if version == "400.1.0" {
				time.Sleep(time.Minute)
			}
		}
		f.restart(t)
		p, err := f.Package(t.Context(), vpc.At("600.1.0"))
		if err != nil {
			t.Fatal(err)
		}
		go f.fetchSize(t, "400.1.0")
		time.Sleep(time.Second)
		time.AfterFunc(time.Minute, func() { p.Close() }) // a second after that fetch
		f.fetch(t, "600.2.0")
		f.settled(t, 1000)
	})
}
