package bundle_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/store"
)

// An import brings the exported content with the records and times of the exporting side. A repeated import changes nothing.
func TestImport(t *testing.T) {
	a, b := newSide(t), newSide(t)
	a.keep(network.At("1.0.0"), "one")
	a.keep(network.At("1.1.0+b1"), "two")
	a.keep(subnet.At("0.1.0"), "one") // the same bytes as another module
	a.decide(network, modproxy.Deprecate, "< 1.1.0", 1)
	first := a.export(nil)
	b.wantTake(a, first, "decided added added added")
	want := b.state()
	b.wantTake(a, first, "kept kept kept")
	if got := b.state(); got != want {
		t.Errorf("after another import:\n%s\nwant\n%s", got, want)
	}
	if !slices.Equal(b.kept(), a.kept()) {
		t.Errorf("kept: %v", b.kept())
	}
	rec, err := b.log.Lookup(t.Context(), network.At("1.0.0"))
	if err != nil || !rec.Time.Equal(long) || rec.Source.URL != "https://git.example.com/acme.git" {
		t.Errorf("record %v, %v", rec, err)
	}
	if s, err := b.firstSeen.Of(t.Context(), network); err != nil || !s.Since("1.1.0+b1").Equal(long) {
		t.Errorf("first-seen times %v, %v", s, err)
	}
	v, err := b.cache.Versions(t.Context(), network)
	if err != nil || len(v.List) != 2 {
		t.Errorf("versions %v, %v", v, err)
	}
	temps(t, b.dir)
	tr := tar.NewReader(bytes.NewReader(first))
	var names []string
	for h, err := tr.Next(); err != io.EOF; h, err = tr.Next() {
		must(t, err)
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != "manifest index 000001.json 000001.tar.gz 000002.json 000002.tar.gz" {
		t.Errorf("tar: %s", got)
	}
}

// The same selection of the same ledger gives the same bytes, also after the ledger has grown.
func TestDeterministic(t *testing.T) {
	a := newSide(t)
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		a.keep(network.At(v), v)
	}
	selected := a.kept()
	first := a.export(nil, selected...)
	a.keep(network.At("2.0.0"), "later")
	a.keep(subnet.At("1.0.0"), "1.1.0")
	if again := a.export(nil, selected...); !bytes.Equal(again, first) {
		t.Error("another bundle of the same selection")
	}
	if other := a.export(nil); bytes.Equal(other, first) {
		t.Error("the same bundle of another selection")
	}
}

// A chain is imported in its order. Each bundle has the new content and lists the content of earlier ones.
func TestChain(t *testing.T) {
	a, b, late := newSide(t), newSide(t), newSide(t)
	a.keep(network.At("1.0.0"), "one")
	a.keep(subnet.At("1.0.0"), "not selected at first")
	one := a.export(nil, network.At("1.0.0"))
	a.keep(network.At("2.0.0"), "two")
	two := a.export(a.head(one))
	a.keep(network.At("3.0.0"), "three")
	three := a.export(a.head(two))
	h := a.head(three)
	if h.Sequence() != 3 || h.Count() != 1 || len(h.Index.Before) != 3 || h.Chain() != a.head(one).ID || a.head(two).Count() != 2 {
		t.Errorf("head %+v", h)
	}
	b.wantTake(a, one, "added")
	missing := func(s *side, bundle []byte, number, id string) {
		t.Helper()
		before := s.state()
		_, err := s.take(a, bundle)
		if !errors.Is(err, modproxy.ErrDenied) || !strings.Contains(err.Error(), number+" ("+id+") is missing") {
			t.Errorf("without bundle %s: %v", number, err)
		}
		if s.state() != before {
			t.Error("something was taken")
		}
	}
	missing(b, three, "2", a.head(two).ID.String())
	missing(late, two, "1", a.head(one).ID.String())
	b.wantTake(a, two, "added added")
	b.wantTake(a, three, "added")
	b.wantTake(a, two, "kept kept") // a known bundle restores missing packages
	b.wantTake(a, three, "kept")
	if !slices.Equal(b.kept(), a.kept()) {
		t.Errorf("kept: %v", b.kept())
	}
	if _, err := b.cache.Discard(t.Context(), network.At("2.0.0")); err != nil {
		t.Fatal(err)
	}
	b.wantTake(a, three, "kept absent")
	b.wantTake(a, two, "added kept")
}

// A new chain may begin, but not with a bundle older than an imported one.
func TestNewChain(t *testing.T) {
	a, b := newSide(t), newSide(t)
	a.keep(network.At("1.0.0"), "one")
	old := a.export(nil)
	a.keep(network.At("2.0.0"), "two")
	b.wantTake(a, a.export(nil), "added added")
	if _, err := b.take(a, old); !errors.Is(err, modproxy.ErrDenied) || !strings.Contains(err.Error(), "--new-chain") {
		t.Errorf("an older one: %v", err)
	}
	x := b.importer(a)
	x.NewChain = true
	if got, err := states(x, t.Context(), old); err != nil || got != "kept" {
		t.Errorf("--new-chain: %q, %v", got, err)
	}
	a.keep(network.At("3.0.0"), "three")
	b.wantTake(a, a.export(nil), "kept kept added")
}

// A version that is recorded here with other content is refused, and the other versions are imported. Content that is accepted here comes
// with the next import.
func TestRecordedOtherwise(t *testing.T) {
	a, b := newSide(t), newSide(t)
	b.keep(network.At("1.0.0"), "ours")
	a.keep(network.At("1.0.0"), "theirs")
	a.keep(network.At("2.0.0"), "two")
	one := a.export(nil)
	b.wantTake(a, one, "refused added")
	p, err := b.cache.Package(t.Context(), network.At("1.0.0"))
	must(t, err)
	p.Close()
	theirs, err := a.log.Lookup(t.Context(), network.At("1.0.0"))
	if err != nil || p.Sum == theirs.Sum {
		t.Fatalf("what was recorded is another one now: %v", err)
	}
	drifts := 0
	for d, err := range b.log.Drifts(t.Context()) {
		if drifts++; err != nil || d.Offered != theirs.Sum {
			t.Errorf("drift %v, %v", d, err)
		}
	}
	if drifts != 1 {
		t.Errorf("%d observations", drifts)
	}
	a.keep(network.At("3.0.0"), "three")
	b.wantTake(a, a.export(a.head(one)), "added absent") // the chain continues
	theirs.Reason = "we have looked"
	must(t, b.log.Accept(t.Context(), theirs))
	b.wantTake(a, one, "added kept")

	// Content that the exporting side accepted is imported as a first record. It does not replace other recorded content.
	a.accept(network.At("2.0.0"), "what they accepted")
	again := newSide(t)
	again.wantTake(a, a.export(nil), "added added added")
	if rec, err := again.log.Lookup(t.Context(), network.At("2.0.0")); err != nil || rec.Reason != "" {
		t.Errorf("record %+v, %v", rec, err)
	}
	b.wantTake(a, a.export(nil), "kept refused kept")

	// If there is nothing to export, nothing is written.
	x := bundle.Exporter{Registry: a.cache, Ledger: a.log, FirstSeen: a.firstSeen}
	var none bytes.Buffer
	err = write(t, x, &none, []modproxy.Ref{network.At("9.0.0")}, nil)
	if !errors.Is(err, modproxy.ErrNotFound) || none.Len() > 0 {
		t.Errorf("nothing is exported: %v, %d bytes", err, none.Len())
	}
}

// Decisions of the exporting side deny here, too. They do not end denials that were decided here, and are taken over once.
func TestDecisions(t *testing.T) {
	a, b := newSide(t), newSide(t)
	a.keep(network.At("1.0.0"), "one")
	a.keep(subnet.At("1.0.0"), "two")
	b.decide(network, modproxy.Reject, "1.0.0", 1)
	b.decide(subnet, modproxy.Block, "< 2.0.0", 2)
	a.decide(network, modproxy.Approve, "1.0.0", 3)
	a.decide(subnet, modproxy.Block, "< 2", 4) // does not replace a decision that was made here
	a.decide(subnet, modproxy.Unblock, "< 2", 5)
	a.decide(subnet, modproxy.Block, "0.9.0", 6)
	one := a.export(nil, a.kept()...)
	x := b.importer(a)
	if got, err := states(x, t.Context(), one); err != nil || got != "decided added added" {
		t.Errorf("import: %q, %v", got, err)
	}
	x.AllDecisions = true
	if got, err := states(x, t.Context(), one); err != nil || got != "kept kept" {
		t.Errorf("all decisions: %q, %v", got, err)
	}
	list, _, err := b.log.Decisions(t.Context(), 0)
	if err != nil || len(list) != 3 || list[2].By != bundle.By+"operator" || list[2].Versions != "0.9.0" {
		t.Errorf("decisions %+v, %v", list, err)
	}
	for _, v := range []modproxy.Ref{network.At("1.0.0"), subnet.At("1.0.0"), subnet.At("0.9.0")} {
		d, err := b.gate.Decisions(t.Context(), v)
		if err != nil || d.Block == nil && (d.Review == nil || d.Review.Action != modproxy.Reject) {
			t.Errorf("%s: %+v, %v", v, d, err)
		}
	}
	// With AllDecisions, the exporting side ends its own decisions.
	a.decide(subnet, modproxy.Unblock, "0.9.0", 7)
	two := a.export(a.head(one))
	b.wantTake(a, two, "")
	if got, err := states(x, t.Context(), two); err != nil || got != "decided" {
		t.Errorf("all decisions of the second: %q, %v", got, err)
	}
	// A later import does not change an unblock that was decided here.
	b.decide(subnet, modproxy.Block, "0.9.0", 8)
	b.decide(subnet, modproxy.Unblock, "0.9.0", 9)
	if got, err := states(b.importer(a), t.Context(), one); err != nil || got != "kept kept" {
		t.Errorf("again: %q, %v", got, err)
	}
}

// If a bundle needs more room than the store has, the import is refused before it stores or evicts anything.
func TestNoRoom(t *testing.T) {
	a, b := newSide(t), newSide(t)
	b.keep(subnet.At("1.0.0"), "here")
	a.keep(network.At("1.0.0"), "one")
	a.keep(network.At("2.0.0"), "two")
	kept, _ := b.store.Usage()
	small := newSideOf(t, store.Config{MaxSize: kept*2 + kept/2}) // room for the whole bundle, but not beside the stored packages
	small.keep(subnet.At("1.0.0"), "here")
	before := small.state()
	if got, err := small.take(a, a.export(nil)); !errors.As(err, new(*modproxy.NoSpace)) || got != "" {
		t.Errorf("import: %q, %v", got, err)
	}
	if small.state() != before {
		t.Error("something has changed")
	}
}

// fullCache has room for a number of packages.
type fullCache struct {
	bundle.Cache
	room atomic.Int64
}

func (c *fullCache) Keep(ctx context.Context, v modproxy.Ref, p *modproxy.Package) error {
	if c.room.Add(-1) < 0 {
		return &modproxy.NoSpace{Err: syscall.ENOSPC}
	}
	return c.Cache.Keep(ctx, v, p)
}

// The error of an import that fails midway has the number of stored versions.
func TestCountOfFailed(t *testing.T) {
	a, b := newSide(t), newSide(t)
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		a.keep(network.At(version), "the same")
	}
	x := b.importer(a)
	full := &fullCache{Cache: b.cache}
	full.room.Store(2)
	x.Cache = full
	_, err := states(x, t.Context(), a.export(nil))
	if len(b.kept()) != 2 || !errors.As(err, new(*modproxy.NoSpace)) || !strings.Contains(err.Error(), "; 2 of 3 versions are stored") {
		t.Errorf("%d are kept: %v", len(b.kept()), err)
	}
	b.wantTake(a, a.export(nil), "kept kept added")
}

// lateCache fails to store version 2.0.0 after it has stored another package. The storing of that package returns when the import has
// failed.
type lateCache struct {
	bundle.Cache
	stored chan struct{}
}

func (c *lateCache) Keep(ctx context.Context, v modproxy.Ref, p *modproxy.Package) error {
	if v.Version == "2.0.0" {
		<-c.stored
		return &modproxy.NoSpace{Err: syscall.ENOSPC}
	}
	err := c.Cache.Keep(ctx, v, p)
	close(c.stored)
	<-ctx.Done()
	return err
}

// The number of stored versions includes a version that is being stored when the import fails.
func TestCountOfFailedTogether(t *testing.T) {
	a, b := newSide(t), newSide(t)
	a.keep(network.At("1.0.0"), "one")
	a.keep(network.At("2.0.0"), "two")
	x := b.importer(a)
	x.Cache = &lateCache{b.cache, make(chan struct{})}
	_, err := states(x, t.Context(), a.export(nil))
	if len(b.kept()) != 1 || !errors.As(err, new(*modproxy.NoSpace)) || !strings.Contains(err.Error(), "; 1 of 2 versions are stored") {
		t.Errorf("%d are stored: %v", len(b.kept()), err)
	}
}

// noLists is a cache that cannot store entries of documents.
type noLists struct{ bundle.Cache }

func (noLists) Learn(context.Context, modproxy.Address, []modproxy.Listed) error { return errLists }

var errLists = errors.New("no lists")

// If the entries of a module cannot be stored, the import does not record its first-seen times. Another import records both.
func TestLearnFails(t *testing.T) {
	a, b := newSide(t), newSide(t)
	v := network.At("1.0.0")
	a.keep(v, "one")
	must(t, a.firstSeen.Take(t.Context(), network, map[string]modproxy.VersionDates{v.Version: {Seen: long}}))
	text := a.export(nil)
	x := b.importer(a)
	x.Cache = noLists{b.cache}
	if _, _, err := x.Import(t.Context(), bytes.NewReader(text)); !errors.Is(err, errLists) {
		t.Fatalf("error %v; want that of the cache", err)
	}
	seen := func() bool {
		s, err := b.firstSeen.Recorded(t.Context(), network)
		must(t, err)
		_, seen := s.Of(v.Version)
		return seen
	}
	if seen() {
		t.Error("the failed import has recorded a first-seen time")
	}
	b.wantTake(a, text, "kept")
	if !seen() {
		t.Error("the complete import has recorded no first-seen time")
	}
}

// The age of a version for a minimum age counts from the first-seen time or the publication date of the exporting side.
func TestAge(t *testing.T) {
	a, b := newSide(t), newSide(t)
	now := time.Now().UTC()
	for version, seen := range map[string]modproxy.VersionDates{
		"1.0.0": {Seen: now.Add(-30 * 24 * time.Hour)},
		"2.0.0": {Seen: now.Add(-time.Hour)},
		"3.0.0": {Seen: now, Published: now.Add(-30 * 24 * time.Hour)},
	} {
		p := a.packed(version)
		rec := modproxy.Record{Ref: network.At(version), Sum: p.Sum, Subdir: ".", Time: now}
		if err := errors.Join(
			a.log.Add(t.Context(), rec), a.cache.Keep(t.Context(), rec.Ref, p),
			a.firstSeen.Take(t.Context(), network, map[string]modproxy.VersionDates{version: seen}),
		); err != nil {
			t.Fatal(err)
		}
	}
	whole := a.export(nil)
	b.wantTake(a, whole, "added added added")
	opened, err := bundle.Open(bytes.NewReader(whole), int64(len(whole)), a.trust(a), bundle.Releases{Unsigned: all{}})
	must(t, err)
	rules, err := policy.Compile(policy.Config{DefaultDeny: true, Rules: []policy.Rule{{Place: "a", Allow: pattern(t, "*/*/*/*"), MinAge: 7 * 24 * time.Hour}}})
	must(t, err)
	for what, r := range map[string]*policy.Registry{
		"imported": {Next: b.cache, Gate: b.gate},
		"served":   {Next: opened, Gate: policy.NewGate(opened, opened)},
	} {
		r.Gate.Use(rules)
		for version, allowed := range map[string]bool{"1.0.0": true, "2.0.0": false, "3.0.0": true} {
			p, err := r.Package(t.Context(), network.At(version))
			if err == nil {
				p.Close()
			}
			if allowed != (err == nil) || err != nil && !errors.Is(err, modproxy.ErrDenied) {
				t.Errorf("%s: %s: %v", what, version, err)
			}
		}
	}
	// A later first-seen time does not replace an earlier one.
	later := map[string]modproxy.VersionDates{"1.0.0": {Seen: now, Published: now}}
	must(t, b.firstSeen.Take(t.Context(), network, later))
	if s, err := b.firstSeen.Of(t.Context(), network); err != nil || s.Since("1.0.0").After(now.Add(-29*24*time.Hour)) {
		t.Errorf("first-seen times %v, %v", s, err)
	}
}

func pattern(t *testing.T, s string) (p policy.Pattern) {
	t.Helper()
	must(t, p.UnmarshalText([]byte(s)))
	return p
}

// A bundle in a file answers as a registry does.
func TestRegistry(t *testing.T) {
	a := newSide(t)
	a.keep(network.At("1.0.0"), "one")
	a.keep(network.At("1.1.0"), "two")
	whole := a.export(nil)
	file := bytes.Clone(whole)
	r, err := bundle.Open(bytes.NewReader(file), int64(len(file)), a.trust(a), bundle.Releases{Unsigned: all{}})
	must(t, err)
	if v, err := r.Versions(t.Context(), network); err != nil || len(v.List) != 2 || v.Time.IsZero() {
		t.Errorf("versions %v, %v", v, err)
	}
	if l, err := r.Location(t.Context(), network.At("1.0.0")); err != nil || !l.Kept {
		t.Errorf("location %v, %v", l, err)
	}
	for range 2 {
		p, err := r.Package(t.Context(), network.At("1.0.0"))
		must(t, err)
		if sum, err := pack.Verify(p, pack.Limits{}); err != nil || sum != p.Sum {
			t.Errorf("package %v, %v", sum, err)
		}
	}
	for _, v := range []modproxy.Ref{network.At("2.0.0"), subnet.At("1.0.0")} {
		_, err := r.Package(t.Context(), v)
		_, errLocation := r.Location(t.Context(), v)
		if !errors.Is(err, modproxy.ErrNotFound) || !errors.Is(errLocation, modproxy.ErrNotFound) {
			t.Errorf("%s: %v, %v", v, err, errLocation)
		}
	}
	if _, err := r.Versions(t.Context(), subnet); !errors.Is(err, modproxy.ErrNotFound) {
		t.Errorf("versions of what is not in it: %v", err)
	}
	file[len(file)-1024-500]++ // a byte of the last package, which was not requested yet
	if p, err := r.Package(t.Context(), network.At("1.1.0")); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("the file has changed: %v, %v", p, err)
	}
}
