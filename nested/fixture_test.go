package nested_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/nested"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/storetest"
	"github.com/modproxy/modproxy/tfconfig"
)

// TestMain makes this binary usable as the child of a [tfconfig.Reader].
func TestMain(m *testing.M) {
	tfconfig.Child()
	os.Exit(m.Run())
}

var vpc = modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}.At("1.0.0")

const url = "https://modules.example.com"

type files map[string]string

// upstream has packages by location. The package of the version has the location "".
type upstream struct {
	t       *testing.T
	mu      sync.Mutex
	all     map[string]files
	fetched map[string]int
}

func (u *upstream) fetch(at string, tree *pack.Builder) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fetched[at]++
	of, ok := u.all[at]
	if !ok {
		return fmt.Errorf("%w: no such repository", modproxy.ErrNotFound)
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if err := tree.File(name, strings.HasSuffix(name, ".sh"), strings.NewReader(of[name])); err != nil {
			return err
		}
	}
	return nil
}

func (u *upstream) Versions(context.Context, modproxy.Address) (*modproxy.Versions, error) {
	return nil, modproxy.ErrNotFound
}

func (u *upstream) Location(context.Context, modproxy.Ref) (modproxy.Location, error) {
	return modproxy.Location{Getter: "git", URL: "x"}, nil
}

func (u *upstream) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	return u.PackageAt(ctx, modproxy.Record{Ref: v})
}

func (u *upstream) PackageAt(_ context.Context, rec modproxy.Record) (*modproxy.Package, error) {
	if rec.Ref != vpc {
		u.t.Errorf("a registry is asked for %s", rec.Ref)
	}
	tree, err := pack.New(u.t.TempDir(), pack.Limits{})
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	if err := u.fetch("", tree); err != nil {
		return nil, err
	}
	return tree.Package(u.t.Context(), u.t.TempDir(), "")
}

func (u *upstream) Commit(context.Context, modproxy.Ref) (string, error) { return "", nil }

// getter fetches the packages of upstream.
type getter struct{ *upstream }

func (getter) Check(context.Context, fetch.Source) error            { return nil }
func (getter) Commit(context.Context, fetch.Source) (string, error) { return "", nil }
func (g getter) Fetch(_ context.Context, s fetch.Source, tree *pack.Builder) (fetch.Result, error) {
	return fetch.Result{From: modproxy.Source{URL: "https://source.example"}}, g.fetch(s.URL, tree)
}

// world is a registry with its layers.
type world struct {
	*nested.Registry
	*upstream
	cache *cache.Registry
	book  *ledgertest.Memory
	left  []string
}

func (w *world) Nested(_ modproxy.Ref, _ int, left []string) { w.left = left }

func newWorld(t *testing.T, all map[string]files) *world {
	w := &world{upstream: &upstream{t: t, all: all, fetched: map[string]int{}}, book: ledgertest.NewMemory()}
	table := &fetch.Table{Getters: map[string]fetch.Getter{"git": getter{w.upstream}, "https": getter{w.upstream}}, Scratch: t.TempDir()}
	sources := nested.NewSources(w.upstream, table)
	h := (&storetest.Memory{}).Handle()
	w.cache = cache.New(cache.Config{
		Next: &ledger.Registry{Next: sources, Ledger: w.book}, Ledger: w.book,
		Store:        store.New(store.Config{Records: h.Records, Blobs: h.Blobs, Quarantine: h.Quarantine}),
		Lifetimes:    cache.Lifetimes{Fresh: time.Minute, MaxStale: time.Hour, Missing: time.Millisecond},
		FetchTimeout: time.Minute, Fetches: 1,
	})
	w.Registry = nested.New(nested.Config{
		Next: w.cache, Ledger: w.book, Reader: tfconfig.NewReader(nil, 0), Sources: sources, URL: url, Scratch: t.TempDir(), Observer: w,
		Getters: slices.Collect(maps.Keys(table.Getters)),
	})
	t.Cleanup(func() {
		if err := w.Registry.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := w.cache.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// read returns the files of the package served for v, and its sum.
func (w *world) read(v modproxy.Ref) (files, modproxy.Sum, error) {
	p, err := w.Registry.Package(w.t.Context(), v)
	if err != nil {
		return nil, "", err
	}
	defer p.Close()
	zr, err := gzip.NewReader(p)
	if err != nil {
		return nil, "", err
	}
	all := files{}
	for in := tar.NewReader(zr); ; {
		h, err := in.Next()
		if err == io.EOF {
			return all, p.Sum, nil
		} else if err != nil {
			return nil, "", err
		}
		text, err := io.ReadAll(in)
		if err != nil {
			return nil, "", err
		}
		all[h.Name] = string(text)
	}
}

var at = vpc.With(modproxy.BaseVariant, nested.Base(url))

// address returns the variant in the address of a source in a text.
func address(t *testing.T, text string) modproxy.Ref {
	t.Helper()
	_, rest, ok := strings.Cut(text, `source = "`+url+"/registry.example.com~/v1/modules/acme/vpc/aws/")
	version, _, _ := strings.Cut(rest, "/")
	v := vpc.Address.At(version)
	if v.Variant.Kind != modproxy.NestedVariant || !ok {
		t.Fatalf("no address in %s", text)
	}
	return v
}
