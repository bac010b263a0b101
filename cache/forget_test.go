package cache_test

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store/storetest"
)

// What counts for a version changes. Until it is told, or three seconds later, the cache
// may answer from memory; after that it answers with what counts.
func TestForget(t *testing.T) {
	for _, what := range []modproxy.Ref{vpc.At("1.0.0"), vpc.At(""), {}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			before := f.fetch(t, "1.0.0")
			f.fetch(t, "1.0.0")
			after, _ := storetest.Bytes(1000, 2)
			f.next.change(func(n *next) { n.content = after })
			f.accept(t, "1.0.0")
			if !bytes.Equal(f.fetch(t, "1.0.0"), before) {
				t.Error("it was fetched again")
			}
			f.Forget(what)
			if !bytes.Equal(f.fetch(t, "1.0.0"), after) {
				t.Error("it was not fetched again")
			}

			// Why it could not be fetched is forgotten, too.
			f.evict(t)
			f.next.change(func(n *next) { n.pack = modproxy.ErrInvalid })
			f.Forget(what)
			if _, err := read(f.Registry, "1.0.0"); err == nil {
				t.Error("it was served all the same")
			}
			f.next.change(func(n *next) { n.pack = nil })
			f.Forget(what)
			f.fetch(t, "1.0.0")
		})
	}
}

// Content that was refused is fetched again as soon as it is accepted, also by another
// process, and not before.
func TestAcceptedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.fetch(t, "1.0.0")
		f.evict(t)
		f.next.change(func(n *next) { n.content = []byte("moved") })
		time.Sleep(5 * time.Second)
		for range 3 {
			if _, err := read(f.Registry, "1.0.0"); !errors.Is(err, modproxy.ErrChanged) {
				t.Errorf("%v, want ErrChanged", err)
			}
			time.Sleep(time.Second)
		}
		equal(t, "asked", f.next.asked("package"), 2)
		f.accept(t, "1.0.0")
		if got := f.fetch(t, "1.0.0"); string(got) != "moved" {
			t.Errorf("%q", got)
		}
	})
}

// That other modules are forgotten costs nothing: a question is sent once, and a
// fetch that failed is not tried again before its time.
func TestForgetOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.change(func(n *next) { n.delay = 100 * time.Millisecond })
		other := vpc
		other.Name = "other"
		go func() {
			for range 300 {
				f.Forget(other.At(""))
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
