package cache_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/storetest"
)

var vpc = modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}

// next is a registry that does what a test says, and counts.
type next struct {
	mu    sync.Mutex
	count map[string]int
	script
}

// script is what a test says.
type script struct {
	listed  string        // versions, separated by spaces
	err     error         // for all three questions
	delay   time.Duration // before an answer, unless the context ends
	subdir  string
	content []byte                                          // of every package
	sum     modproxy.Sum                                    // empty: made from content
	fetched func()                                          // in the middle of every package
	pack    error                                           // for Package
	receive func(ctx context.Context, v modproxy.Ref) error // a package; nil: it is there at once
	at      error                                           // for PackageAt; nil: content is there
}

func (n *next) change(f func(n *next)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n)
}

// asked is how often a question was asked.
func (n *next) asked(what string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count[what]
}

// ask counts and waits.
func (n *next) ask(ctx context.Context, what string) (script, error) {
	n.mu.Lock()
	if n.count == nil {
		n.count = map[string]int{}
	}
	n.count[what]++
	now := n.script
	n.mu.Unlock()
	if now.delay > 0 {
		select {
		case <-time.After(now.delay):
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
	return now, now.err
}

func (n *next) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	now, err := n.ask(ctx, "versions")
	if err != nil {
		return nil, err
	}
	var entries []string
	for version := range strings.FieldsSeq(now.listed) {
		entries = append(entries, fmt.Sprintf(`{"version": %q, "from": "upstream"}`, version))
	}
	v, err := modproxy.ParseVersions([]byte(`{"modules": [{"versions": [` + strings.Join(entries, ",") + `]}]}`))
	if err == nil {
		v.Time = time.Now()
	}
	return v, err
}

func (n *next) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	version := v.FullVersion()
	now, err := n.ask(ctx, "location")
	if err != nil {
		return modproxy.Location{}, err
	}
	return modproxy.Location{Getter: "https", URL: "https://files.example.com/" + version, Subdir: now.subdir}, nil
}

type body struct{ io.ReadSeeker }

func (body) Close() error { return nil }

// interrupted calls back at its first Read.
type interrupted struct {
	io.ReadSeeker
	once sync.Once
	f    func()
}

func (r *interrupted) Read(p []byte) (int, error) {
	r.once.Do(r.f)
	return r.ReadSeeker.Read(p)
}

func (n *next) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	version := v.FullVersion()
	now, err := n.ask(ctx, "package")
	if err == nil && now.receive != nil {
		err = now.receive(ctx, v)
	}
	if err != nil || now.pack != nil {
		return nil, errors.Join(err, now.pack)
	}
	digest := modproxy.Digest(sha256.Sum256(now.content))
	if now.sum == "" {
		now.sum = sumOf(now.content)
	}
	if now.fetched == nil {
		now.fetched = func() {}
	}
	_, subdir := modproxy.Location{Subdir: now.subdir}.SplitGlob()
	return &modproxy.Package{
		Subdir: subdir,
		Body:   modproxy.NewBody(body{&interrupted{ReadSeeker: bytes.NewReader(now.content), f: now.fetched}}, digest),
		Digest: digest, Sum: now.sum, Size: int64(len(now.content)),
		Source: modproxy.Source{URL: "https://files.example.com/" + version},
	}, nil
}

// Commit is not known.
func (n *next) Commit(context.Context, modproxy.Ref) (string, error) { return "", nil }

// PackageAt serves versions that the registry no longer has, without commits.
func (n *next) PackageAt(_ context.Context, rec modproxy.Record) (*modproxy.Package, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count["at"]++
	if n.at != nil {
		return nil, n.at
	}
	return &modproxy.Package{
		Body:   modproxy.NewBody(body{bytes.NewReader(n.content)}, digestOf(n.content)),
		Digest: digestOf(n.content), Sum: sumOf(n.content), Size: int64(len(n.content)),
		Source: rec.Source,
	}, nil
}

// events counts what a registry tells.
type events struct {
	mu   sync.Mutex
	list []cache.Event
}

func (e *events) add(event cache.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, event)
}

func (e *events) count(kind cache.Kind) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.list {
		if event.Kind == kind {
			n++
		}
	}
	return n
}

// fixture is a registry over a storage and a ledger in memory.
type fixture struct {
	*cache.Registry
	next    *next
	storage *storetest.Memory
	ledger  *ledgertest.Memory
	events  *events
	memory  int64 // see [store.Config]; for the next restart
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{next: &next{script: script{listed: "1.0.0 1.1.0"}}, storage: &storetest.Memory{}, ledger: ledgertest.NewMemory()}
	f.next.content, _ = storetest.Bytes(100_000, 1)
	f.restart(t)
	return f
}

// restart makes a new registry over the same storage and ledger.
func (f *fixture) restart(t *testing.T) {
	if f.Registry != nil {
		mustClose(t, f.Registry)
	}
	f.events = &events{}
	f.Registry = newRegistry(f.storage.Handle(), f.ledger, f.next, f.memory)
	f.Registry.Observe = f.events.add
	r := f.Registry
	t.Cleanup(func() { mustClose(t, r) })
}

// newRegistry makes a registry over a storage and a ledger. A nil next is offline. memory is that of [store.Config].
func newRegistry(h storetest.Handle, l *ledgertest.Memory, n ledger.Upstream, memory int64) *cache.Registry {
	r := cache.New(cache.Config{
		Store: store.New(store.Config{Records: h.Records, Blobs: h.Blobs, Quarantine: h.Quarantine, Memory: memory}), Ledger: l,
		Lifetimes:    cache.Lifetimes{Fresh: 5 * time.Minute, MaxStale: 720 * time.Hour, Missing: 30 * time.Second},
		FetchTimeout: 15 * time.Minute, Fetches: 8,
	})
	if n != nil {
		r.Next = &ledger.Registry{Next: n, Ledger: l}
	}
	return r
}

// changed returns a registry like r, which was not used, with another configuration.
func changed(t *testing.T, r *cache.Registry, change func(*cache.Config)) *cache.Registry {
	config := r.Config
	change(&config)
	r = cache.New(config)
	t.Cleanup(func() { mustClose(t, r) })
	return r
}

// accept makes the content that next offers count.
func (f *fixture) accept(t *testing.T, version string) {
	t.Helper()
	rec, err := f.ledger.Lookup(t.Context(), vpc.At(version))
	if err != nil {
		t.Fatal(err)
	}
	rec.Sum, rec.Reason, rec.Time = sumOf(f.next.content), "because", time.Now()
	if err := f.ledger.Accept(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
}

func sumOf(content []byte) modproxy.Sum {
	digest := digestOf(content)
	return modproxy.Sum("h1:" + base64.StdEncoding.EncodeToString(digest[:]))
}

func mustClose(t testing.TB, r *cache.Registry) {
	t.Helper()
	if err := errors.Join(r.Close(context.Background()), r.Store.Close(context.Background())); err != nil {
		t.Error(err)
	}
}

// offline is a restart without Next.
func (f *fixture) offline(t *testing.T) {
	f.restart(t)
	f.Registry.Next = nil
}

func (f *fixture) fetch(t testing.TB, version string) []byte {
	t.Helper()
	data, err := read(f.Registry, version)
	if err != nil {
		t.Error(err)
	}
	return data
}

// read reads a whole package.
func read(r *cache.Registry, version string) ([]byte, error) { return readOf(r, vpc, version) }

func readOf(r *cache.Registry, m modproxy.Address, version string) ([]byte, error) {
	p, err := r.Package(context.Background(), m.At(version))
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return io.ReadAll(p)
}

// versions is what is listed, with its marks.
func (f *fixture) versions(t testing.TB) string {
	t.Helper()
	v, err := f.Versions(t.Context(), vpc)
	if err != nil {
		return err.Error()
	}
	var list []string
	for _, l := range v.List {
		list = append(list, l.Version.String())
	}
	if v.Hit {
		list = append(list, "hit")
	}
	if v.Stale {
		list = append(list, "stale")
	}
	return strings.Join(list, " ")
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func digestOf(data []byte) modproxy.Digest { return sha256.Sum256(data) }
