package cache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// A fetch in the background comes after those that clients wait for, and is one of them as soon as a client wants it.
func TestClientsComeBeforeTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Registry = changed(t, f.Registry, func(c *cache.Config) { c.Fetches = 1 })
		f.next.change(func(n *next) { n.delay = time.Minute }) // each for the location, and for the package
		run, name := modproxy.InBackground(t.Context()), func(i int) modproxy.Ref {
			return modproxy.Address{Host: vpc.Host, Namespace: "acme", Name: fmt.Sprint("m", i), System: "aws"}.At("1.0.0")
		}
		var all sync.WaitGroup
		fetch := func(ctx context.Context, v modproxy.Ref, within time.Duration) {
			all.Go(func() {
				began := time.Now()
				p, err := f.Package(ctx, v)
				if err != nil {
					t.Error(err)
					return
				}
				p.Close()
				if took := time.Since(began); within > 0 && took > within {
					t.Errorf("%v took %v; want %v at most", v, took, within)
				}
			})
			synctest.Wait()
		}
		for i := range 20 {
			fetch(run, name(i), 0)
		}
		fetch(t.Context(), name(19), 4*time.Minute) // which joins the last one, and waits for the first
		fetch(t.Context(), name(20), 6*time.Minute) // which comes after that
		other := modproxy.InBackground(t.Context())
		fetch(other, name(18), 8*time.Minute) // as that is what a client waits for by now
		modproxy.BringForward(other)
		all.Wait()
		equal(t, "package asked", f.next.asked("package"), 21)
	})
}

// A fetch in the background that waits for its turn ends with the registry.
func TestBackgroundEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Registry = changed(t, f.Registry, func(c *cache.Config) { c.Fetches = 1 })
		f.next.change(func(n *next) { n.delay = time.Hour })
		var all sync.WaitGroup
		for _, version := range []string{"1.0.0", "1.1.0"} {
			all.Go(func() {
				if _, err := f.Package(modproxy.InBackground(t.Context()), vpc.At(version)); !errors.Is(err, modproxy.ErrUnavailable) {
					t.Errorf("%s: %v", version, err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := f.Close(ctx); err == nil {
			t.Error("nothing was ended")
		}
		all.Wait()
	})
}

// Work that no client waits for ends with EndBackground, at once. Work that clients wait for continues.
func TestEndBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.change(func(n *next) { n.delay = time.Minute }) // each for the location, and for the package
		ended := map[string]chan error{}
		ask := func(ctx context.Context, version string) {
			done := make(chan error, 1)
			ended[version] = done
			go func() {
				p, err := f.Package(ctx, vpc.At(version))
				if err == nil {
					p.Close()
				}
				done <- err
			}()
			synctest.Wait()
		}
		began := time.Now()
		ask(modproxy.InBackground(t.Context()), "1.0.0")
		ask(modproxy.InBackground(t.Context()), "1.1.0")
		ask(t.Context(), "1.1.0")
		ask(t.Context(), "1.2.0")
		f.EndBackground()
		ask(modproxy.InBackground(t.Context()), "1.3.0")
		for _, version := range []string{"1.0.0", "1.3.0"} {
			if err := <-ended[version]; !errors.Is(err, modproxy.ErrUnavailable) || time.Since(began) > 0 {
				t.Errorf("%s in the background: %v after %v", version, err, time.Since(began))
			}
		}
		for _, version := range []string{"1.1.0", "1.2.0"} {
			if err := <-ended[version]; err != nil {
				t.Errorf("%s for a client: %v", version, err)
			}
		}
		mustClose(t, f.Registry)
	})
}

// What failed in the background for reasons that pass is not remembered: a client has a try of its own. What will not be
// otherwise, or not before a time that the registry says, is remembered for all clients.
func TestFailedInTheBackground(t *testing.T) {
	fetch := func(f *fixture, ctx context.Context) error {
		p, err := f.Package(ctx, vpc.At("1.0.0"))
		if err == nil {
			err = p.Close()
		}
		return err
	}
	down := func(n *next) { n.err = modproxy.ErrUnavailable }
	for name, c := range map[string]struct {
		fail func(*next)
		ask  func(*fixture, context.Context) error
		want error // for the client, whom nothing fails for any more
	}{
		"versions": {down, func(f *fixture, ctx context.Context) error {
			_, err := f.Versions(ctx, vpc)
			return err
		}, nil},
		"location": {down, func(f *fixture, ctx context.Context) error {
			_, err := f.Location(ctx, vpc.At("1.0.0"))
			return err
		}, nil},
		"package": {func(n *next) { n.pack = modproxy.ErrUnavailable }, fetch, nil},
		"late": {func(n *next) {
			n.receive = func(ctx context.Context, _ modproxy.Ref) error {
				<-ctx.Done()
				return ctx.Err()
			}
		}, fetch, nil},
		"invalid": {func(n *next) { n.pack = modproxy.ErrInvalid }, fetch, modproxy.ErrInvalid},
		"held": {func(n *next) {
			n.pack = &modproxy.RetryLater{After: time.Now().Add(time.Hour), Err: errors.New("too many")}
		}, fetch, modproxy.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.next.change(c.fail)
				if err := c.ask(f, modproxy.InBackground(t.Context())); err == nil {
					t.Error("nothing fails in the background")
				}
				f.next.change(func(n *next) { n.err, n.pack, n.receive = nil, nil, nil })
				if err := c.ask(f, t.Context()); !errors.Is(err, c.want) {
					t.Errorf("for a client: %v; want %v", err, c.want)
				}
			})
		})
	}
}

// What fails for a client is remembered, also when it was begun in the background.
func TestFailedForAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.change(func(n *next) { n.pack, n.delay = modproxy.ErrUnavailable, time.Second })
		background := make(chan error)
		go func() {
			_, err := f.Package(modproxy.InBackground(t.Context()), vpc.At("1.0.0"))
			background <- err
		}()
		synctest.Wait()
		for range 2 {
			if _, err := f.Package(t.Context(), vpc.At("1.0.0")); err == nil {
				t.Error("it was fetched")
			}
		}
		<-background
		equal(t, "package asked", f.next.asked("package"), 1)
	})
}
