package cache_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
)

// Stored packages are listed while the registry is unavailable, with any stored list, and with anything that it does in
// the place of answering. Only its answer that the module does not exist counts.
func TestOutageWithoutADocument(t *testing.T) {
	lose := map[string]func(t *testing.T, f *fixture){
		"no document": func(t *testing.T, f *fixture) {
			rec, err := f.document(t, vpc)
			if err == nil {
				err = f.storage.Records().Delete(t.Context(), rec.Ref, rec.Revision)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"an old one": func(*testing.T, *fixture) { time.Sleep(10_000 * time.Hour) },
		"a damaged one": func(t *testing.T, f *fixture) {
			rec, err := f.document(t, vpc)
			if err == nil {
				rec.Value = rec.Value[:20]
				_, err = f.storage.Records().Put(t.Context(), rec)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	}
	trouble := map[string]func(n *next){
		"down":         func(n *next) { n.err = errDown },
		"later":        func(n *next) { n.err = &modproxy.RetryLater{After: time.Now().Add(time.Hour), Err: errDown} },
		"unauthorized": func(n *next) { n.err = modproxy.ErrUnauthorized },
		"no JSON":      func(n *next) { n.err = modproxy.ErrInvalid },
		"of no kind":   func(n *next) { n.err = errors.New("of no kind") },
		"hanging":      func(n *next) { n.delay = 24 * time.Hour },
	}
	for lost, lose := range lose {
		for why, trouble := range trouble {
			t.Run(lost+", "+why, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t)
					f.versions(t)
					f.fetch(t, "1.0.0")
					synctest.Wait()
					lose(t, f)
					f.next.change(trouble)
					f.restart(t)
					began := time.Now()
					for range 10 {
						equal(t, "in the outage", f.versions(t), "1.0.0 hit stale")
					}
					// Not each of ten questions waits for the registry.
					if waited := time.Since(began); waited > 4*time.Second {
						t.Errorf("ten answers took %v", waited)
					}
					f.fetch(t, "1.0.0")
					synctest.Wait()
					time.Sleep(2 * time.Hour)
					f.next.change(func(n *next) { n.err, n.delay = nil, 0 })
					f.restart(t)
					equal(t, "afterwards", f.versions(t), "1.0.0 1.1.0")

					if _, err := f.Discard(t.Context(), vpc.At("1.0.0")); err != nil {
						t.Fatal(err)
					}
					lose(t, f)
					f.next.change(trouble)
					f.restart(t)
					if _, err := f.Versions(t.Context(), vpc); err == nil || errors.Is(err, modproxy.ErrNotFound) {
						t.Errorf("nothing is stored: %v", err)
					}
				})
			})
		}
	}
}

// A registry that answers late is not one that is unavailable: the stored packages alone are listed only if it takes longer
// than clients wait.
func TestLateWithoutADocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.fetch(t, "1.0.0")
		f.next.change(func(n *next) { n.delay = 2 * time.Second })
		equal(t, "late", f.versions(t), "1.0.0 1.1.0")
		time.Sleep(10_000 * time.Hour)
		f.next.change(func(n *next) { n.delay = 20 * time.Second })
		began := time.Now()
		equal(t, "too late", f.versions(t), "1.0.0 hit stale")
		equal(t, "after", time.Since(began), 3*time.Second)
		equal(t, "the next one", f.versions(t), "1.0.0 hit stale")
		equal(t, "after", time.Since(began), 3*time.Second)
		time.Sleep(17 * time.Second)
		synctest.Wait()
		equal(t, "when it has answered", f.versions(t), "1.0.0 1.1.0 hit")
	})
}
