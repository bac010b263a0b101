package observe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/observe"
	"github.com/modproxy/modproxy/test/registrytest"
)

// notes writes down what an observer is notified of, and the questions of next between.
type notes struct {
	modproxy.Registry
	list []string
}

func (n *notes) add(format string, args ...any) {
	n.list = append(n.list, fmt.Sprintf(format, args...))
}

func (n *notes) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	n.add("next")
	return n.Registry.Location(ctx, v)
}

type observer struct {
	name  string
	notes *notes
}

func (o observer) Requested(ctx context.Context, q observe.Question) {
	o.notes.add("%s: %s requested %d %s", o.name, modproxy.ClientOf(ctx).Name, q.Kind, q.Ref)
}

func (o observer) Answered(_ context.Context, q observe.Question, a observe.Answer) {
	o.notes.add("%s: %d %s: %d versions, %s, not found %v", o.name, q.Kind, q.Ref.Version, len(list(a.Versions)), a.Location.URL,
		errors.Is(a.Err, modproxy.ErrNotFound))
}

func list(v *modproxy.Versions) []modproxy.Listed {
	if v == nil {
		return nil
	}
	return v.List
}

func newNotes(t testing.TB) *notes {
	t.Helper()
	memory, err := registrytest.NewMemory("registry.example.com", registrytest.Modules())
	if err != nil {
		t.Fatal(err)
	}
	return &notes{Registry: memory}
}

// A Registry with observers is a registry as any other.
func TestRegistry(t *testing.T) {
	registrytest.TestRegistry(t, "registry.example.com", func(t testing.TB) modproxy.Registry {
		n := newNotes(t)
		return &observe.Registry{Next: n.Registry, Observers: []observe.Observer{silent{}, silent{}}}
	})
}

type silent struct{}

func (silent) Requested(context.Context, observe.Question)                {}
func (silent) Answered(context.Context, observe.Question, observe.Answer) {}

// Observers are notified in their order, before and after Next, of the three questions, their answers and errors.
func TestObservers(t *testing.T) {
	n := newNotes(t)
	r := &observe.Registry{Next: n, Observers: []observe.Observer{observer{"one", n}, observer{"two", n}}}
	ctx := modproxy.WithClient(t.Context(), modproxy.Client{Name: "client"})
	want := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(n.list, want) {
			t.Errorf("%s: got\n%q, want\n%q", what, n.list, want)
		}
		n.list = nil
	}
	m := modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "network", System: "aws"}
	v, err := r.Versions(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	answered := fmt.Sprintf(": 0 : %d versions, , not found false", len(v.List))
	want("versions", "one: client requested 0 "+m.String(), "two: client requested 0 "+m.String(), "one"+answered, "two"+answered)

	ref := m.At(v.List[0].Version.String())
	l, err := r.Location(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	answered = ": 1 " + ref.Version + ": 0 versions, " + l.URL + ", not found false"
	want("location", "one: client requested 1 "+ref.String(), "two: client requested 1 "+ref.String(), "next", "one"+answered, "two"+answered)

	absent := m.At("66.6.6")
	if _, err := r.Package(ctx, absent); !errors.Is(err, modproxy.ErrNotFound) {
		t.Errorf("the error of next: %v", err)
	}
	answered = ": 2 66.6.6: 0 versions, , not found true"
	want("package", "one: client requested 2 "+absent.String(), "two: client requested 2 "+absent.String(), "one"+answered, "two"+answered)
}

// located is a registry that answers without allocating.
type located struct{ modproxy.Registry }

func (located) Location(context.Context, modproxy.Ref) (modproxy.Location, error) {
	return modproxy.Location{Kept: true}, nil
}

// Observing allocates no memory.
func TestAllocates(t *testing.T) {
	r := &observe.Registry{Next: located{}, Observers: []observe.Observer{silent{}}}
	v := modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "network", System: "aws"}.At("1.0.0")
	if n := testing.AllocsPerRun(100, func() { r.Location(t.Context(), v) }); n > 0 {
		t.Errorf("%v allocations for each question", n)
	}
}
