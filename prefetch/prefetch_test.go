package prefetch_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/observe"
	"github.com/modproxy/modproxy/prefetch"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/tfconfig"
)

// TestMain makes this binary the child process of readers, like the program. Each child appends a byte to a file.
func TestMain(m *testing.M) {
	if started, err := os.Executable(); err == nil && len(os.Args) == 2 && os.Args[1] == "read-configuration" {
		if f, err := os.OpenFile(started+".children", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_, _ = f.WriteString("x")
			_ = f.Close()
		}
	}
	tfconfig.Child()
	os.Exit(m.Run())
}

const host = "registry.acme.example"

// Package one calls two, two calls three, and three calls one and two again. One also calls modules that do not go through the
// proxy, do not exist, or cannot be read.
const chain = `
-- modules/acme/one/aws/1.0.0/main.tf --
module "two" {
  source  = "registry.acme.example/acme/two/aws//modules/part"
  version = "~> 1.0"
}
module "past" { source = "registry.other.example/acme/two/aws" }
module "git" { source = "git::https://git.example/x.git" }
module "absent" { source = "registry.acme.example/acme/absent/aws" }
module "broken" { source = "registry.acme.example/acme/broken/aws" }
-- modules/acme/one/aws/1.0.0/modules/aside/main.tf --
module "unused" { source = "registry.acme.example/acme/unused/aws" }
-- modules/acme/two/aws/1.0.0/main.tf --
-- modules/acme/two/aws/1.2.0/main.tf --
module "unused" { source = "registry.acme.example/acme/unused/aws" }
-- modules/acme/two/aws/1.2.0/modules/part/main.tf --
module "three" { source = "registry.acme.example/acme/three/aws" }
-- modules/acme/two/aws/2.0.0/main.tf --
-- modules/acme/three/aws/1.0.0/main.tf --
module "one" { source = "registry.acme.example/acme/one/aws" }
module "two" {
  source  = "registry.acme.example/acme/two/aws//modules/part"
  version = "~> 1.0"
}
-- modules/acme/broken/aws/1.0.0/main.tf --
module "x" { source =
-- modules/acme/unused/aws/1.0.0/main.tf --
`

// world is the registry, the cache and the observer of a Prefetcher. It records the requests for locations.
type world struct {
	*registrytest.Memory
	full bool
	turn func() // called before a package is downloaded; may be nil

	mu         sync.Mutex
	locations  []string // requested from silent
	kept       map[modproxy.Ref]bool
	came, used int
}

func (w *world) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	if _, err := w.Memory.Location(ctx, v); err != nil {
		return modproxy.Location{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept[v] {
		return modproxy.Location{Kept: true}, nil
	}
	w.kept[v] = true
	return modproxy.Location{URL: "https://git.example/x", Kept: true}, nil
}

func (w *world) Exists(_ context.Context, v modproxy.Ref) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kept[v], nil
}

func (w *world) Room(context.Context, int64, bool) error {
	if w.turn != nil {
		w.turn()
	}
	if w.full {
		return &modproxy.NoSpace{Err: errors.New("full")}
	}
	return nil
}

func (w *world) Prefetched()   { w.count(&w.came) }
func (w *world) PrefetchUsed() { w.count(&w.used) }

func (w *world) count(n *int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*n++
}

// Upstream implements [closure.Routes].
func (w *world) Upstream(m modproxy.Address) (modproxy.Address, error) {
	if m.Host != host {
		return m, errors.New("not among upstreams")
	}
	return m, nil
}

// silent is the registry that prefetches ask.
type silent struct{ *world }

func (q silent) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	if !modproxy.IsBackground(ctx) {
		return nil, errors.New("a client waits")
	}
	return q.world.Versions(ctx, m)
}

func (q silent) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	q.mu.Lock()
	q.locations = append(q.locations, v.Name+" "+v.Version)
	q.mu.Unlock()
	if !modproxy.IsBackground(ctx) {
		return modproxy.Location{}, errors.New("a client waits")
	}
	return q.world.Location(ctx, v)
}

// client is the registry that clients ask.
type client struct {
	*observe.Registry
	*prefetch.Prefetcher
}

// anything are the rights of clients that may read everything.
type anything struct{}

func (anything) Rights(context.Context) string { return "" }
func (anything) Still(context.Context) error   { return nil }

func newWorld(t *testing.T, text string) (*world, client) {
	t.Helper()
	return newWorldFor(t, text, anything{})
}

func newWorldFor(t *testing.T, text string, rights prefetch.Rights) (*world, client) {
	t.Helper()
	memory, err := registrytest.NewMemory(host, txtar.Parse([]byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Memory: memory, kept: map[modproxy.Ref]bool{}}
	p := prefetch.New(prefetch.Config{
		Silent: silent{w}, Stored: w, Room: w, Largest: 1, Routes: w, Reader: tfconfig.NewReader(nil, 0), Rights: rights, Observer: w,
	})
	t.Cleanup(p.Close)
	return w, client{&observe.Registry{Next: w, Observers: []observe.Observer{p}}, p}
}

func at(name, version string) modproxy.Ref {
	return modproxy.Address{Host: host, Namespace: "acme", Name: name, System: "aws"}.At(version)
}

// brought waits until n packages are prefetched, and returns them.
func (w *world) brought(t *testing.T, n int) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		w.mu.Lock()
		came, list := w.came, slices.Clone(w.locations)
		w.mu.Unlock()
		if came == n {
			slices.Sort(list)
			return strings.Join(list, ", ")
		}
		if time.Now().After(end) {
			t.Fatalf("%d packages were prefetched, want %d: %q", came, n, list)
		}
	}
}

func ask(t *testing.T, r client, v modproxy.Ref) {
	t.Helper()
	ctx, cancel := context.WithCancel(modproxy.WithClient(t.Context(), modproxy.Client{Program: "Terraform/1.11.4"}))
	defer cancel() // the request has been answered
	if _, err := r.Location(ctx, v); err != nil {
		t.Fatal(err)
	}
}

// The modules that a client is about to request are prefetched: in the version that it chooses, and with the calls of the called
// directories only.
func TestPrefetch(t *testing.T) {
	w, r := newWorld(t, chain)
	ask(t, r, at("one", "1.0.0"))
	if got := w.brought(t, 3); got != "broken 1.0.0, three 1.0.0, two 1.2.0" {
		t.Errorf("brought %s", got)
	}
	ask(t, r, at("two", "1.2.0"))
	ask(t, r, at("two", "1.2.0"))
	if w.used != 1 {
		t.Errorf("%d prefetched packages were used, want 1", w.used)
	}
}

// A package that a client has requested before its prefetch began is not counted as prefetched.
func TestRequestedMeanwhile(t *testing.T) {
	for name, fetched := range map[string]bool{"kept by now": true, "under way": false} {
		t.Run(name, func(t *testing.T) {
			w, r := newWorld(t, chain)
			v := at("two", "1.2.0")
			w.turn = sync.OnceFunc(func() {
				reg := modproxy.Registry(r)
				if fetched {
					reg = w // without a task for the packages that it calls
				}
				if _, err := reg.Location(t.Context(), v); err != nil {
					t.Error(err)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				w.kept[v] = fetched
			})
			further, hold := make(chan struct{}, 100), make(chan struct{})
			w.Before = func(_ context.Context, op string, m modproxy.Address, _ string) error {
				switch {
				case op == "location" && m.Name == "three":
					further <- struct{}{}
					<-hold
				case m.Name == "unused": // the task of the client that has requested two
					<-hold
				case m.Name == "broken":
					return modproxy.ErrNotFound
				}
				return nil
			}
			ask(t, r, at("one", "1.0.0"))
			<-further
			w.mu.Lock()
			came := w.came
			w.mu.Unlock()
			close(hold)
			if came != 0 {
				t.Errorf("%d packages count as prefetched", came)
			}
		})
	}
}

// A package that is prefetched for two clients with different rights counts once, even if one of them is denied.
func TestFailedForOne(t *testing.T) {
	w, r := newWorld(t, chain)
	both, failed := make(chan struct{}, 100), make(chan struct{})
	w.Before = func(ctx context.Context, op string, m modproxy.Address, _ string) error {
		few := len(modproxy.ClientOf(ctx).Groups) > 0
		switch {
		case op == "location" && m.Name == "two" && modproxy.IsBackground(ctx):
			both <- struct{}{}
			if !few {
				<-failed
			}
			for few && len(both) < 2 {
				time.Sleep(time.Millisecond)
			}
			if few {
				return modproxy.ErrDenied
			}
		case op == "location" && m.Name != "one" && m.Name != "two":
			return modproxy.ErrNotFound
		}
		return nil
	}
	ask(t, r, at("one", "1.0.0"))
	few := modproxy.WithClient(t.Context(), modproxy.Client{Program: "Terraform/1.11.4", Groups: []string{"few"}})
	w.mu.Lock()
	delete(w.kept, at("one", "1.0.0"))
	w.mu.Unlock()
	if _, err := r.Location(few, at("one", "1.0.0")); err != nil {
		t.Fatal(err)
	}
	for len(both) < 2 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // until the prefetch of few has failed
	close(failed)
	w.brought(t, 1)
	ask(t, r, at("two", "1.2.0"))
	if w.used != 1 {
		t.Errorf("%d prefetched packages were used, want 1", w.used)
	}
}

// A package that was cached before the request is not read: the client may have its calls.
func TestKept(t *testing.T) {
	w, r := newWorld(t, chain)
	w.kept[at("one", "1.0.0")] = true
	ask(t, r, at("one", "1.0.0"))
	r.Close()
	if n := w.Calls("package"); n != 0 {
		t.Errorf("%d packages were opened", n)
	}
}

// Without room, nothing is downloaded, and so nothing is evicted.
func TestFull(t *testing.T) {
	w, r := newWorld(t, chain)
	w.full = true
	asked := make(chan struct{}, 1)
	w.Before = func(_ context.Context, op string, m modproxy.Address, _ string) error {
		if op == "versions" && m.Name == "two" {
			asked <- struct{}{}
		}
		return nil
	}
	ask(t, r, at("one", "1.0.0"))
	<-asked
	time.Sleep(50 * time.Millisecond)
	r.Close()
	if len(w.locations) > 0 {
		t.Errorf("asked for %q", w.locations)
	}
}

// Two hundred clients that install the same version at the same moment share one task.
func TestStorm(t *testing.T) {
	w, r := newWorld(t, chain)
	hold := make(chan struct{})
	w.Before = func(ctx context.Context, op string, m modproxy.Address, _ string) error {
		if op == "package" {
			<-hold
		}
		return nil
	}
	var clients sync.WaitGroup
	for range 200 {
		clients.Go(func() {
			w.mu.Lock()
			delete(w.kept, at("one", "1.0.0")) // it is being downloaded
			w.mu.Unlock()
			ask(t, r, at("one", "1.0.0"))
		})
	}
	clients.Wait()
	close(hold)
	w.brought(t, 3)
	r.Close()
	if n := w.Calls("versions"); n != 4 { // two, three, absent and broken
		t.Errorf("versions were asked for %d times, want 4", n)
	}
}

// Close ends all tasks, even while a registry does not answer.
func TestClose(t *testing.T) {
	w, r := newWorld(t, chain)
	asked := make(chan struct{}, 100)
	w.Before = func(ctx context.Context, op string, _ modproxy.Address, _ string) error {
		if op != "package" {
			return nil
		}
		asked <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	ask(t, r, at("one", "1.0.0"))
	<-asked
	r.Close()
	before := len(asked)
	ask(t, r, at("two", "1.2.0"))
	if len(asked) != before {
		t.Error("something is prefetched after the end")
	}
}
