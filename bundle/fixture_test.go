package bundle_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

var (
	network = modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "network", System: "aws"}
	subnet  = modproxy.Address{Host: "registry.example.com:8443", Namespace: "acme", Name: "subnet", System: "aws"}
	long    = time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
)

// A side is the state of a proxy on one side of the gap.
type side struct {
	t         testing.TB
	dir       string
	log       *ledger.Log
	store     *store.Store
	cache     *cache.Registry
	firstSeen *history.FirstSeen
	gate      *policy.Gate
}

func newSide(t testing.TB) *side { return newSideOf(t, store.Config{}) }

// newSideOf returns a side with a store as configured, in a new directory.
func newSideOf(t testing.TB, config store.Config) *side {
	t.Helper()
	s := &side{t: t, dir: t.TempDir()}
	index, err := disk.Open(t.Context(), s.dir)
	must(t, err)
	if s.log, err = ledger.Open(s.dir + "/ledger"); err != nil {
		t.Fatal(err)
	}
	config.Records, config.Blobs, config.Quarantine = index.Records(), index.Blobs(), index
	s.store = store.New(config)
	s.cache = cache.New(cache.Config{Store: s.store, Ledger: s.log})
	s.firstSeen = history.NewFirstSeen(history.FirstSeenConfig{Records: s.store.Records})
	s.gate = policy.NewGate(s.log, s.firstSeen)
	t.Cleanup(func() {
		ctx := context.Background()
		if err := errors.Join(s.cache.Close(ctx), s.log.Close(), s.store.Close(ctx), index.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// packed returns a package of one file.
func (s *side) packed(content string) *modproxy.Package {
	s.t.Helper()
	b, err := pack.New(s.dir, pack.Limits{})
	must(s.t, err)
	defer b.Close()
	var text bytes.Buffer
	err = b.File("main.tf", false, strings.NewReader(content))
	made, errPack := b.Pack(&text, "")
	must(s.t, errors.Join(err, errPack))
	digest := modproxy.Digest(sha256.Sum256(text.Bytes()))
	return &modproxy.Package{
		Body: modproxy.NewBody(nopCloser{bytes.NewReader(text.Bytes())}, digest), Digest: digest, Size: int64(text.Len()), Sum: made.Sum, Time: long,
	}
}

// keep records a version with one file of that content, and stores its package.
func (s *side) keep(v modproxy.Ref, content string) {
	s.t.Helper()
	p := s.packed(content)
	rec := modproxy.Record{Ref: v, Sum: p.Sum, Subdir: ".", Time: long, Source: modproxy.Source{URL: "https://git.example.com/acme.git"}}
	must(s.t, errors.Join(s.log.Add(s.t.Context(), rec), s.cache.Keep(s.t.Context(), v, p)))
}

// accept records other content for a version and stores the package.
func (s *side) accept(v modproxy.Ref, content string) {
	s.t.Helper()
	p := s.packed(content)
	rec := modproxy.Record{Ref: v, Sum: p.Sum, Subdir: ".", Time: long, Reason: "they have looked"}
	must(s.t, errors.Join(s.log.Accept(s.t.Context(), rec), s.cache.Keep(s.t.Context(), v, p)))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

// decide makes a decision at a distinct time.
func (s *side) decide(m modproxy.Address, action modproxy.Action, versions string, minute int) {
	s.t.Helper()
	d := modproxy.Decision{Address: m, Action: action, Versions: versions, By: "operator", Time: long.Add(time.Duration(minute) * time.Minute), Reason: "because"}
	must(s.t, errors.Join(s.log.Decide(s.t.Context(), d), s.gate.Follow(s.t.Context())))
}

// kept returns the stored versions, in order.
func (s *side) kept() (list []modproxy.Ref) {
	s.t.Helper()
	for l, err := range s.cache.List(s.t.Context(), modproxy.Address{}) {
		must(s.t, err)
		list = append(list, l.Ref)
	}
	slices.SortFunc(list, func(a, b modproxy.Ref) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// export exports the given versions, or all stored ones.
func (s *side) export(since *bundle.Head, versions ...modproxy.Ref) []byte {
	s.t.Helper()
	if versions == nil {
		versions = s.kept()
	}
	decisions, _, err := s.log.Decisions(s.t.Context(), 0)
	must(s.t, err)
	var b bytes.Buffer
	x := bundle.Exporter{Registry: &policy.Registry{Next: s.cache, Gate: s.gate}, Ledger: s.log, FirstSeen: s.firstSeen, Since: since}
	must(s.t, write(s.t, x, &b, versions, decisions))
	return b.Bytes()
}

// write writes a bundle and checks its size against Size.
func write(t testing.TB, x bundle.Exporter, w io.Writer, versions []modproxy.Ref, decisions []modproxy.Decision) error {
	t.Helper()
	told := 0
	e, err := x.Begin(t.Context(), versions, decisions, func(v modproxy.Ref, why error) {
		if told++; why != nil {
			t.Logf("%s is not exported: %v", v, why)
		}
	})
	if err != nil {
		return err
	}
	all, is := w.(*bytes.Buffer)
	if _, err = e.Write(t.Context(), w); is && int64(all.Len()) != e.Size() || told != len(versions) {
		t.Errorf("%d bytes, and %d versions told; want %d and %d", all.Len(), told, e.Size(), len(versions))
	}
	return err
}

// importer returns an importer that trusts the ledgers of others.
func (s *side) importer(others ...*side) *bundle.Importer {
	s.t.Helper()
	return &bundle.Importer{
		Trust: s.trust(others...), Ledger: s.log, Cache: s.cache, FirstSeen: s.firstSeen, Gate: s.gate, Scratch: s.dir,
		Releases: bundle.Releases{Unsigned: all{}},
	}
}

// all covers all modules.
type all struct{}

func (all) Covers(modproxy.Address) bool { return true }

func (s *side) trust(others ...*side) note.Verifiers {
	var keys []string
	for _, o := range others {
		keys = append(keys, o.log.VerifierKey())
	}
	v, err := ledger.Verifiers(keys...)
	must(s.t, err)
	return v
}

// take imports a bundle of another side and returns the states of the items, a word each.
func (s *side) take(from *side, b []byte) (string, error) {
	s.t.Helper()
	return states(s.importer(from), s.t.Context(), b)
}

func states(x *bundle.Importer, ctx context.Context, b []byte) (string, error) {
	var words []string
	_, items, err := x.Import(ctx, bytes.NewReader(b))
	for _, i := range items {
		words = append(words, string(i.State))
	}
	return strings.Join(words, " "), err
}

// wantTake imports a bundle without an error and checks the states.
func (s *side) wantTake(from *side, b []byte, want string) {
	s.t.Helper()
	if got, err := s.take(from, b); err != nil || got != want {
		s.t.Errorf("import: %q, %v; want %q", got, err, want)
	}
}

// head reads the head of a bundle.
func (s *side) head(b []byte) *bundle.Head {
	s.t.Helper()
	r, err := bundle.NewReader(bytes.NewReader(b), s.trust(s))
	must(s.t, err)
	return r.Head
}

// state returns everything that a side has: the records of the ledger, and the packages with their content.
func (s *side) state() string {
	s.t.Helper()
	var b strings.Builder
	var records []string
	for rec, err := range s.log.All(s.t.Context()) {
		records = append(records, fmt.Sprint(rec.Ref, rec.Sum, rec.Time, rec.Source, rec.Subdir, rec.Reason, err))
	}
	slices.Sort(records)
	fmt.Fprintln(&b, strings.Join(records, "\n"))
	list, _, err := s.log.Decisions(s.t.Context(), 0)
	fmt.Fprintln(&b, list, err)
	for _, v := range s.kept() {
		p, err := s.cache.Package(s.t.Context(), v)
		must(s.t, err)
		sum, err := pack.Verify(p, pack.Limits{})
		fmt.Fprintln(&b, v, sum, sum == p.Sum, errors.Join(err, p.Close()))
	}
	return b.String()
}

func temps(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tmp") {
			t.Errorf("%s is left", e.Name())
		}
	}
}
