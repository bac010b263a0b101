package ledger_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/test/registrytest"
)

const host = "registry.example.com"

func newNext(t testing.TB) *registrytest.Memory {
	t.Helper()
	next, err := registrytest.NewMemory(host, registrytest.Modules())
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestRegistry(t *testing.T) {
	registrytest.TestRegistry(t, host, func(t testing.TB) modproxy.Registry {
		return &ledger.Registry{Next: commitless{newNext(t)}, Ledger: mustOpen(t, t.TempDir())}
	})
}

// commitless is an upstream without git.
type commitless struct{ modproxy.Registry }

func (commitless) PackageAt(context.Context, modproxy.Record) (*modproxy.Package, error) {
	return nil, modproxy.ErrInvalid
}

func (commitless) Commit(context.Context, modproxy.Ref) (string, error) { return "", nil }

// upstream returns a package with the current sum for every request.
type upstream struct {
	commitless     // without a registry: those methods must not be called
	mu             sync.Mutex
	sum            modproxy.Sum
	subdir         string
	err            error
	opened, closed int
	source         modproxy.Source // zero: derived from sum
	at             func(commit string) (*modproxy.Package, error)
}

func (u *upstream) PackageAt(ctx context.Context, rec modproxy.Record) (*modproxy.Package, error) {
	if u.at == nil {
		return u.commitless.PackageAt(ctx, rec)
	}
	p, err := u.at(rec.Source.Commit)
	if err == nil {
		u.mu.Lock()
		u.opened++
		u.mu.Unlock()
	}
	return p, err
}

type body struct {
	*strings.Reader
	u *upstream
}

func (body) Verify(context.Context) error { return nil }

func (b body) Close() error {
	b.u.mu.Lock()
	defer b.u.mu.Unlock()
	b.u.closed++
	return nil
}

func (u *upstream) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
		return nil, u.err
	}
	u.opened++
	source := u.source
	if source == (modproxy.Source{}) {
		source = modproxy.Source{URL: "https://git.example.com/" + string(u.sum[3:6]) + ".git", Commit: "c0ffee"}
	}
	return &modproxy.Package{
		Body: body{strings.NewReader("files"), u}, Sum: u.sum, Subdir: u.subdir, Source: source,
	}, nil
}

func (u *upstream) answers(seed string) modproxy.Sum {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sum = ledgertest.Sum(seed)
	return u.sum
}

// ask expects a package or the error, and that every package was closed.
func ask(t *testing.T, reg *ledger.Registry, u *upstream, want error) error {
	t.Helper()
	p, err := reg.Package(t.Context(), vpc.At("1.0.0"))
	if !errors.Is(err, want) {
		t.Fatalf("package: %v, want %v", err, want)
	}
	if err == nil {
		if b, err := io.ReadAll(p); err != nil || string(b) != "files" {
			t.Errorf("read %q, %v", b, err)
		}
		p.Close()
	} else {
		var named *modproxy.Error
		if !errors.As(err, &named) || named.Op != "package" || named.Ref.Address != vpc || named.Ref.FullVersion() != "1.0.0" {
			t.Errorf("error %v does not say what was asked", err)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.opened != u.closed {
		t.Errorf("%d packages opened, %d closed", u.opened, u.closed)
	}
	return err
}

func (u *upstream) Location(context.Context, modproxy.Ref) (modproxy.Location, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return modproxy.Location{Getter: "git", URL: "https://git.example.com/x.git", Subdir: u.subdir}, u.err
}

// TestSubdirIsCompared: another directory of the same package is another module.
func TestSubdirIsCompared(t *testing.T) {
	u, book := &upstream{}, mustOpen(t, t.TempDir())
	drifted := 0
	reg := &ledger.Registry{Next: u, Ledger: book, Observe: func(e ledger.Event) {
		if e.Kind == ledger.Drifted {
			drifted++
		}
	}}
	sum := u.answers("same")
	for _, was := range []string{"", "modules/good"} {
		u.subdir = was
		if _, err := reg.Location(t.Context(), vpc.At("1.0.0")); err != nil {
			t.Fatal(err)
		}
		ask(t, reg, u, nil)
		u.subdir = "examples/evil"
		err := ask(t, reg, u, modproxy.ErrChanged)
		if want := "is " + string(sum) + ", directory examples/evil, now"; !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
		if _, err := reg.Location(t.Context(), vpc.At("1.0.0")); !errors.Is(err, modproxy.ErrChanged) {
			t.Errorf("location: %v", err)
		}
		if was == "" {
			rec, err := book.Lookup(t.Context(), vpc.At("1.0.0"))
			if err != nil || rec.Subdir != "." {
				t.Fatalf("%+v, %v", rec, err)
			}
			rec.Subdir, rec.Reason = "modules/good", "they moved it"
			if err := book.Accept(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
		}
	}
	if drifted != 4 {
		t.Errorf("drift was told %d times", drifted)
	}
}

func TestPackageIsCompared(t *testing.T) {
	u, book := &upstream{}, mustOpen(t, t.TempDir())
	var events []ledger.Event
	reg := &ledger.Registry{Next: u, Ledger: book, Observe: func(e ledger.Event) { events = append(events, e) }}
	first := u.answers("first")
	ask(t, reg, u, nil)
	ask(t, reg, u, nil)
	rec, err := book.Lookup(t.Context(), vpc.At("1.0.0"))
	if err != nil || rec.Sum != first || rec.Source.Commit != "c0ffee" || time.Since(rec.Time).Abs() > time.Hour {
		t.Errorf("recorded %+v, %v", rec, err)
	}
	second := u.answers("second")
	for range 3 {
		err = ask(t, reg, u, modproxy.ErrChanged)
	}
	for _, want := range []string{
		string(first), string(second), rec.Time.Format(time.RFC3339), rec.Source.URL, "c0ffee", "modproxy ledger drift",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	var drifts []ledger.Drift
	for d, err := range book.Drifts(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		drifts = append(drifts, d)
	}
	if len(drifts) != 1 || drifts[0].Recorded != first || drifts[0].Offered != second || drifts[0].Source.Commit != "c0ffee" {
		t.Errorf("drifts %+v", drifts)
	}
	u.answers("first") // back to the recorded content
	ask(t, reg, u, nil)
	rec.Sum, rec.Reason = second, "it was announced"
	if err := book.Accept(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	ask(t, reg, u, modproxy.ErrChanged)
	u.answers("second")
	ask(t, reg, u, nil)
	var kinds []ledger.Kind
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	if d := cmp.Diff([]ledger.Kind{ledger.Recorded, ledger.Drifted, ledger.Drifted, ledger.Drifted, ledger.Drifted}, kinds); d != "" {
		t.Error(d)
	}
	if e := events[1]; e.Ref != vpc.At("1.0.0") || e.Record.Sum != first || e.Drift.Offered != second || e.Drift.Recorded != first || e.Err == nil {
		t.Errorf("event %+v", e)
	}
}

// TestPackageWithoutLedger: if the ledger fails, no package passes.
func TestPackageWithoutLedger(t *testing.T) {
	u, book := &upstream{}, ledgertest.NewMemory()
	failed := 0
	reg := &ledger.Registry{Next: u, Ledger: book, Observe: func(e ledger.Event) {
		if e.Kind == ledger.Failed && e.Err != nil {
			failed++
		}
	}}
	u.answers("first")
	book.Fail(errors.New("no space left"))
	ask(t, reg, u, modproxy.ErrUnavailable)
	book.Fail(nil)
	ask(t, reg, u, nil)
	book.Fail(errors.New("no space left"))
	ask(t, reg, u, modproxy.ErrUnavailable)
	u.answers("second")
	ask(t, reg, u, modproxy.ErrUnavailable)
	book.Fail(nil)
	u.mu.Lock()
	u.sum = "h1:" // not a valid sum
	u.mu.Unlock()
	reg.Next = sumless{u}
	if _, err := reg.Package(t.Context(), vpc.At("2.0.0")); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("a package without a sum = %v, want ErrInvalid", err)
	}
	if _, err := reg.Package(t.Context(), vpc.At("1.0.0")); !errors.Is(err, modproxy.ErrChanged) {
		t.Errorf("a package without a sum = %v, want ErrChanged", err)
	}
	if failed != 5 {
		t.Errorf("%d failures were told, want 5", failed)
	}
}

type sumless struct{ *upstream }

func (s sumless) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	return &modproxy.Package{Body: body{strings.NewReader(""), s.upstream}}, nil
}

func TestNextFails(t *testing.T) {
	want := &modproxy.Error{Op: "package", Ref: vpc.At("1.0.0"), Err: modproxy.ErrNotFound}
	u, book := &upstream{err: want}, ledgertest.NewMemory()
	reg := &ledger.Registry{Next: u, Ledger: book}
	if _, err := reg.Package(t.Context(), vpc.At("1.0.0")); err != want {
		t.Errorf("package: %v, want Next's error", err)
	}
	for r := range book.All(t.Context()) {
		t.Errorf("recorded %v", r)
	}
}

// TestFirstSightAtOnce: many clients request a version while upstream returns other content every time. All receive the content
// that was recorded first.
func TestFirstSightAtOnce(t *testing.T) {
	u, book := &upstream{}, mustOpen(t, t.TempDir())
	reg := &ledger.Registry{Next: u, Ledger: book}
	var mu sync.Mutex
	served := map[modproxy.Sum]bool{}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			u.answers(string(rune('a' + i)))
			p, err := reg.Package(t.Context(), vpc.At("1.0.0"))
			switch {
			case err == nil:
				mu.Lock()
				served[p.Sum] = true
				mu.Unlock()
				p.Close()
			case !errors.Is(err, modproxy.ErrChanged):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	rec, err := book.Lookup(t.Context(), vpc.At("1.0.0"))
	if err != nil || len(served) != 1 || !served[rec.Sum] {
		t.Errorf("served %v, recorded %s, %v", served, rec.Sum, err)
	}
}

// TestRecordedCommit: if a tag has moved, the recorded commit is fetched, from the same repository only, and must match the
// record.
func TestRecordedCommit(t *testing.T) {
	const repo = "https://git.example.com/vpc.git"
	u := &upstream{source: modproxy.Source{URL: repo, Commit: "c0ffee"}}
	was := u.answers("as it was")
	drifted, asked := 0, ""
	at := func(commit string) (*modproxy.Package, error) {
		asked = commit
		return &modproxy.Package{
			Body: body{strings.NewReader("files"), u}, Sum: was, Source: modproxy.Source{URL: repo, Commit: commit},
		}, nil
	}
	u.at = at
	reg := &ledger.Registry{Next: u, Ledger: mustOpen(t, t.TempDir()), Observe: func(e ledger.Event) {
		if e.Kind == ledger.Drifted {
			drifted++
		}
	}}
	ask(t, reg, u, nil)
	if asked != "" {
		t.Errorf("what has not moved was fetched at %s", asked)
	}
	u.answers("moved")
	u.source.Commit = "0ddba11"
	ask(t, reg, u, nil)
	if asked != "c0ffee" || drifted != 1 {
		t.Errorf("fetched at %q, drift told %d times", asked, drifted)
	}

	u.at = func(commit string) (*modproxy.Package, error) {
		p, err := at(commit)
		p.Sum = ledgertest.Sum("a third")
		return p, err
	}
	ask(t, reg, u, modproxy.ErrChanged)
	gone := &modproxy.Error{Op: "package", Ref: vpc.At("1.0.0"), Err: modproxy.ErrNotFound}
	u.at = func(string) (*modproxy.Package, error) { return nil, gone }
	err := ask(t, reg, u, modproxy.ErrChanged)
	if errors.Is(err, modproxy.ErrNotFound) || !strings.HasSuffix(err.Error(), "; the recorded source does not have it: not found") {
		t.Errorf("error %v", err)
	}

	u.at, asked = at, ""
	u.source.URL = "https://git.example.com/another.git"
	ask(t, reg, u, modproxy.ErrChanged)
	u.source = modproxy.Source{URL: repo} // no commit, as from an archive
	ask(t, reg, u, modproxy.ErrChanged)
	if asked != "" {
		t.Errorf("what is elsewhere was fetched at %q", asked)
	}
}

// TestMirrors: a record has the URL of the mirror, and the content of a version is the same from the mirror, from another mirror and from
// the source itself.
func TestMirrors(t *testing.T) {
	const repo, mirror = "https://git.example.com/vpc.git", "https://git.corp.example/mirrors/vpc.git"
	u := &upstream{source: modproxy.Source{URL: repo, Commit: "c0ffee", Mirror: mirror}}
	was := u.answers("as it was")
	drift := ""
	reg := &ledger.Registry{Next: u, Ledger: mustOpen(t, t.TempDir()), Observe: func(e ledger.Event) {
		if e.Kind == ledger.Drifted {
			drift = e.Err.Error()
		}
	}}
	ask(t, reg, u, nil)
	if rec, err := reg.Ledger.Lookup(t.Context(), vpc.At("1.0.0")); err != nil || rec.Source != u.source {
		t.Errorf("recorded %+v, %v", rec.Source, err)
	}
	for _, other := range []string{"", mirror, "https://other.corp.example/vpc.git"} {
		u.source = modproxy.Source{URL: repo, Commit: "c0ffee", Mirror: other}
		u.answers("as it was")
		ask(t, reg, u, nil)
		u.answers("moved") // the recorded commit is then at another mirror than it was
		u.source.Commit = "0ddba11"
		u.at = func(commit string) (*modproxy.Package, error) {
			return &modproxy.Package{
				Body: body{strings.NewReader("files"), u}, Sum: was, Source: modproxy.Source{URL: repo, Commit: commit, Mirror: other},
			}, nil
		}
		ask(t, reg, u, nil)
	}
	if !strings.Contains(drift, "from "+repo+" at commit c0ffee, by its mirror "+mirror) {
		t.Errorf("drift: %s", drift)
	}
}

// TestAmbiguous: if the registry names a recorded version more than once, clients get the recorded content. Without a record they get the
// registry's error.
func TestAmbiguous(t *testing.T) {
	const repo = "https://git.example.com/vpc.git"
	u := &upstream{source: modproxy.Source{URL: repo, Commit: "c0ffee"}}
	was := u.answers("as it was")
	reg := &ledger.Registry{Next: u, Ledger: mustOpen(t, t.TempDir())}
	twice := &modproxy.Ambiguous{Err: errors.New("the tags v1.0.0 and 1.0.0 name different commits")}
	u.err = modproxy.Wrap("package", vpc.At("1.0.0"), twice)
	if err := ask(t, reg, u, modproxy.ErrInvalid); !strings.HasSuffix(err.Error(), twice.Error()) {
		t.Errorf("unrecorded: %v", err)
	}
	if _, err := reg.Location(t.Context(), vpc.At("1.0.0")); !errors.As(err, new(*modproxy.Ambiguous)) {
		t.Errorf("location of an unrecorded version: %v", err)
	}
	u.err = nil
	ask(t, reg, u, nil)

	u.err = modproxy.Wrap("package", vpc.At("1.0.0"), twice)
	u.at = func(commit string) (*modproxy.Package, error) {
		return &modproxy.Package{
			Body: body{strings.NewReader("files"), u}, Sum: was, Source: modproxy.Source{URL: repo, Commit: commit},
		}, nil
	}
	ask(t, reg, u, nil)
	if l, err := reg.Location(t.Context(), vpc.At("1.0.0")); err != nil || l.URL != repo+"?ref=c0ffee" {
		t.Errorf("location of a recorded version: %v, %v", l, err)
	}
	down := modproxy.Wrap("package", vpc.At("1.0.0"), &modproxy.Temporary{Err: errors.New("no route to host")})
	u.at = func(string) (*modproxy.Package, error) { return nil, down }
	err := ask(t, reg, u, modproxy.ErrUnavailable)
	if errors.Is(err, modproxy.ErrInvalid) || err.Error() != down.Error()+"; the registry no longer offers it: "+twice.Error() {
		t.Errorf("the recorded source is unavailable: %v", err)
	}
}
