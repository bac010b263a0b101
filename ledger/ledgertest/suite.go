package ledgertest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
)

// Handle is a ledger under test.
type Handle interface {
	ledger.Ledger
	ServerOps() sumdb.ServerOps
	VerifierKey() string
}

var (
	vpc  = modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}
	when = time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
)

// Sum returns a well-formed sum. Different seeds have different sums.
func Sum(seed string) modproxy.Sum {
	return modproxy.NewSum(sha256.Sum256([]byte(seed)))
}

// NewRecord returns the first record of a version, with a subdirectory and a source.
func NewRecord(m modproxy.Address, version, seed string) ledger.Record {
	return ledger.Record{
		Ref: m.At(version), Sum: Sum(seed), Subdir: "modules/ü", Time: when,
		Source: modproxy.Source{URL: "https://git.example.com/acme/" + m.Name + ".git", Commit: "4b825dc642cb6eb9a060e54bf8d69288fbee4904"},
	}
}

func accepted(r ledger.Record, reason string) ledger.Record {
	r.Reason = reason
	return r
}

func newDrift(version, recorded, offered string) ledger.Drift {
	return ledger.Drift{
		Ref: vpc.At(version), Recorded: Sum(recorded), Offered: Sum(offered), Time: when,
		Source: modproxy.Source{URL: "https://git.example.com/acme/vpc.git", Commit: "c0ffee", Mirror: "https://git.corp.example/mirrors/acme/vpc.git"},
	}
}

// NewDecision returns a decision about versions of a module.
func NewDecision(m modproxy.Address, action modproxy.Action, versions string) modproxy.Decision {
	return modproxy.Decision{Address: m, Action: action, Versions: versions, By: "operator alice", Time: when, Reason: "a bucket that everybody can read"}
}

// Open opens the log in dir and closes it at the end of the test.
func Open(t testing.TB, dir string) *ledger.Log {
	t.Helper()
	l, err := ledger.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Run tests a ledger. open returns n handles on one empty storage.
func Run(t *testing.T, open func(t *testing.T, n int) []Handle) {
	for name, test := range map[string]func(t *testing.T, a, b Handle){
		"absent":          testAbsent,
		"first":           testFirst,
		"first sum wins":  testFirstWins,
		"subdir":          testSubdir,
		"accept":          testAccept,
		"accept needs":    testAcceptNeeds,
		"had":             testHad,
		"all":             testAll,
		"of a module":     testOf,
		"drift":           testDrift,
		"drift is once":   testDriftOnce,
		"drift has bound": testDriftBound,
		"decisions":       testDecisions,
		"decide invalid":  testDecideInvalid,
		"decide at once":  testDecideAtOnce,
		"invalid":         testInvalid,
		"at once":         testAtOnce,
		"spellings":       testSpellings,
		"spell at once":   testSpellAtOnce,
		"served":          testServed,
		"served odd":      testServedOdd,
		"served grows":    testServedGrows,
		"served bounded":  testServedBounded,
	} {
		t.Run(name, func(t *testing.T) {
			handles := open(t, 2)
			test(t, handles[0], handles[1])
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s = %v, want %v", what, err, want)
	}
}

func list[T any](t *testing.T, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var values []T
	for v, err := range seq {
		must(t, err)
		values = append(values, v)
	}
	return values
}

func wantRecords(t *testing.T, l Handle, want ...ledger.Record) {
	t.Helper()
	if d := cmp.Diff(want, list(t, l.All(t.Context()))); d != "" {
		t.Errorf("All: %s", d)
	}
}

func wantRecord(t *testing.T, l Handle, want ledger.Record) {
	t.Helper()
	got, err := l.Lookup(t.Context(), want.Ref)
	must(t, err)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Lookup: %s", d)
	}
}

func testAbsent(t *testing.T, a, b Handle) {
	wantRecords(t, a)
	must(t, a.Add(t.Context(), NewRecord(vpc, "1.2.3", "a")))
	for _, m := range []modproxy.Address{
		{Host: "registry.example.org", Namespace: "acme", Name: "vpc", System: "aws"},
		{Host: "registry.example.com:8443", Namespace: "acme", Name: "vpc", System: "aws"},
		{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "google"},
	} {
		_, err := b.Lookup(t.Context(), m.At("1.2.3"))
		wantErr(t, m.String(), err, fs.ErrNotExist)
	}
	for _, version := range []string{"1.2.4", "1.2.3+b", "1.2.3-rc1", "1.2.3.0"} {
		_, err := b.Lookup(t.Context(), vpc.At(version))
		wantErr(t, version, err, fs.ErrNotExist)
	}
}

func testFirst(t *testing.T, a, b Handle) {
	full := NewRecord(vpc, "1.2.3", "a")
	bare := ledger.Record{Ref: vpc.At("2.0.0"), Sum: Sum("b"), Time: when.Truncate(time.Second)}
	zoned := NewRecord(vpc, "3.0.0", "c")
	zoned.Time = when.In(time.FixedZone("", 3600))
	must(t, a.Add(t.Context(), full))
	must(t, a.Add(t.Context(), bare))
	must(t, a.Add(t.Context(), zoned))
	wantRecord(t, b, full)
	wantRecord(t, b, bare)
	if got, err := b.Lookup(t.Context(), vpc.At("3.0.0")); err != nil || got.Time != when {
		t.Errorf("time %v, %v; want it in UTC", got.Time, err)
	}
}

func testFirstWins(t *testing.T, a, b Handle) {
	first := NewRecord(vpc, "1.2.3", "a")
	must(t, a.Add(t.Context(), first))
	wantErr(t, "Add of another sum", b.Add(t.Context(), NewRecord(vpc, "1.2.3", "b")), modproxy.ErrChanged)
	again := first
	again.Time, again.Source = when.Add(time.Hour), modproxy.Source{}
	must(t, b.Add(t.Context(), again))
	wantRecord(t, a, first)
	wantRecords(t, a, first)
}

// testSubdir: a recorded directory counts as the sum does.
func testSubdir(t *testing.T, a, b Handle) {
	first := NewRecord(vpc, "1.2.3", "a")
	must(t, a.Add(t.Context(), first))
	other := first
	other.Subdir = "examples/evil"
	wantErr(t, "Add of another directory", b.Add(t.Context(), other), modproxy.ErrChanged)
	whole := first
	whole.Subdir = "."
	wantErr(t, "Add of the root", b.Add(t.Context(), whole), modproxy.ErrChanged)
	d := ledger.Drift{Ref: vpc.At("1.2.3"), Recorded: first.Sum, Offered: first.Sum, Subdir: other.Subdir, Time: when}
	must(t, b.AddDrift(t.Context(), d))
	must(t, a.AddDrift(t.Context(), d)) // already recorded
	d.Subdir = "."
	must(t, a.AddDrift(t.Context(), d))
	if n := len(list(t, b.Drifts(t.Context()))); n != 2 {
		t.Errorf("%d observations, want 2", n)
	}
	must(t, b.Accept(t.Context(), accepted(other, "they moved it")))
	wantRecord(t, a, accepted(other, "they moved it"))
	wantErr(t, "Add of the first one", a.Add(t.Context(), first), modproxy.ErrChanged)

	// A record of an earlier version has no directory: only its sum is compared.
	old := NewRecord(vpc, "2.0.0", "b")
	old.Subdir = ""
	must(t, a.Add(t.Context(), old))
	now := old
	now.Subdir = "modules/ü"
	must(t, b.Add(t.Context(), now))
	wantRecord(t, b, old)
	for _, bad := range []string{"/x", "..", "../x", "x/", "x//y", "./x", "x\ny"} {
		now.Version, now.Subdir = "3.0.0", bad
		wantErr(t, bad, a.Add(t.Context(), now), modproxy.ErrInvalid)
	}
}

func testAccept(t *testing.T, a, b Handle) {
	first := NewRecord(vpc, "1.2.3", "a")
	second := accepted(NewRecord(vpc, "1.2.3", "b"), "the tag was moved; see ticket ü 42")
	must(t, a.Add(t.Context(), first))
	must(t, a.Accept(t.Context(), second))
	wantRecord(t, b, second)
	wantErr(t, "Add of the superseded record", b.Add(t.Context(), first), modproxy.ErrChanged)
	must(t, b.Add(t.Context(), NewRecord(vpc, "1.2.3", "b")))
	must(t, b.Accept(t.Context(), accepted(second, "once more")))
	wantRecords(t, b, first, second)
	back := accepted(first, "moved back")
	must(t, b.Accept(t.Context(), back))
	wantRecord(t, a, back)
	wantRecords(t, a, first, second, back)
}

func testHad(t *testing.T, a, b Handle) {
	had := func(v modproxy.Ref, seed string, want bool) {
		t.Helper()
		if got, err := b.Had(t.Context(), v, Sum(seed)); got != want || err != nil {
			t.Errorf("%s had %s: %v, %v, want %v", v, seed, got, err, want)
		}
	}
	first := NewRecord(vpc, "1.2.3", "a")
	had(first.Ref, "a", false)
	must(t, a.Add(t.Context(), first))
	must(t, a.Accept(t.Context(), accepted(NewRecord(vpc, "1.2.3", "b"), "it was moved")))
	must(t, a.Accept(t.Context(), accepted(NewRecord(vpc, "1.2.3", "c"), "once more")))
	must(t, a.AddDrift(t.Context(), newDrift("1.2.3", "c", "d")))
	for seed, want := range map[string]bool{"a": true, "b": true, "c": true, "d": false} {
		had(first.Ref, seed, want)
	}
	had(vpc.At("1.2.4"), "a", false)
	_, err := a.Had(t.Context(), first.Ref, "x")
	wantErr(t, "Had of an invalid sum", err, modproxy.ErrInvalid)
}

func testAcceptNeeds(t *testing.T, a, b Handle) {
	first := NewRecord(vpc, "1.2.3", "a")
	wantErr(t, "Accept of an unknown version", a.Accept(t.Context(), accepted(first, "why not")), fs.ErrNotExist)
	must(t, a.Add(t.Context(), first))
	other := NewRecord(vpc, "1.2.3", "b")
	for _, reason := range []string{"", " ", " x", "two\nlines", "\x1b[2J", "\xff", strings.Repeat("x", 1025)} {
		wantErr(t, fmt.Sprintf("Accept for reason %q", reason), a.Accept(t.Context(), accepted(other, reason)), modproxy.ErrInvalid)
	}
	wantErr(t, "Add with a reason", a.Add(t.Context(), accepted(other, "why")), modproxy.ErrInvalid)
	wantRecords(t, b, first)
}

func testOf(t *testing.T, a, b Handle) {
	dns := modproxy.Address{Host: vpc.Host, Namespace: vpc.Namespace, Name: "dns", System: vpc.System}
	var want []ledger.Record
	for i := range 20 {
		r := NewRecord(vpc, fmt.Sprintf("1.%d.0", i), "a")
		must(t, a.Add(t.Context(), r))
		must(t, a.Add(t.Context(), NewRecord(dns, fmt.Sprintf("2.%d.0", i), "a")))
		want = append(want, r)
	}
	must(t, a.AddDrift(t.Context(), newDrift("1.3.0", "a", "b")))
	must(t, a.Decide(t.Context(), NewDecision(vpc, modproxy.Block, "1.2.0")))
	want[5] = accepted(NewRecord(vpc, "1.5.0", "b"), "the tag was moved")
	must(t, a.Accept(t.Context(), want[5]))
	slices.Reverse(want)
	var got []ledger.Record
	for r, err := range b.Of(t.Context(), vpc) {
		must(t, err)
		got = append(got, r)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records of a module: -want +got\n%s", diff)
	}
	for r := range b.Of(t.Context(), modproxy.Address{Host: vpc.Host, Namespace: "other", Name: "vpc", System: "aws"}) {
		t.Errorf("of a module without records: %v", r)
	}
	for range b.Of(t.Context(), vpc) {
		break
	}
}

func testAll(t *testing.T, a, b Handle) {
	var want []ledger.Record
	for i := range 100 {
		r := NewRecord(vpc, fmt.Sprintf("1.%d.0", (i*37)%100), "a")
		must(t, a.Add(t.Context(), r))
		want = append(want, r)
	}
	wantRecords(t, b, want...)
	n := 0
	for r, err := range b.All(t.Context()) {
		must(t, err)
		must(t, a.Add(t.Context(), NewRecord(vpc, "2."+r.Version, "a")))
		n++
	}
	if n != len(want) {
		t.Errorf("%d records while others were added, want the %d that were there", n, len(want))
	}
	for range b.All(t.Context()) {
		break
	}
}

func testDrift(t *testing.T, a, b Handle) {
	d := newDrift("1.2.3", "a", "b")
	wantErr(t, "Drift of an unknown version", a.AddDrift(t.Context(), d), fs.ErrNotExist)
	first := NewRecord(vpc, "1.2.3", "a")
	must(t, a.Add(t.Context(), first))
	must(t, a.AddDrift(t.Context(), d))
	wantRecord(t, b, first)
	wantRecords(t, b, first)
	if diff := cmp.Diff([]ledger.Drift{d}, list(t, b.Drifts(t.Context()))); diff != "" {
		t.Error(diff)
	}
	for range b.Drifts(t.Context()) {
		break
	}
}

func testDriftOnce(t *testing.T, a, b Handle) {
	must(t, a.Add(t.Context(), NewRecord(vpc, "1.2.3", "a")))
	must(t, a.Add(t.Context(), NewRecord(vpc, "1.2.4", "a")))
	want := []ledger.Drift{newDrift("1.2.3", "a", "b"), newDrift("1.2.3", "a", "c"), newDrift("1.2.4", "a", "b")}
	for range 3 {
		for i, d := range want {
			must(t, a.AddDrift(t.Context(), d))
			d.Time = when.Add(time.Duration(i) * time.Hour)
			d.Source = modproxy.Source{}
			must(t, b.AddDrift(t.Context(), d))
		}
	}
	must(t, a.Accept(t.Context(), accepted(NewRecord(vpc, "1.2.3", "b"), "why")))
	want = append(want, newDrift("1.2.3", "b", "a"))
	must(t, a.AddDrift(t.Context(), want[3]))
	if diff := cmp.Diff(want, list(t, b.Drifts(t.Context()))); diff != "" {
		t.Error(diff)
	}
}

func testDriftBound(t *testing.T, a, b Handle) {
	must(t, a.Add(t.Context(), NewRecord(vpc, "1.2.3", "a")))
	must(t, a.Add(t.Context(), NewRecord(vpc, "1.2.4", "a")))
	for i := range ledger.MaxDrifts {
		must(t, a.AddDrift(t.Context(), newDrift("1.2.3", "a", fmt.Sprint(i))))
	}
	wantErr(t, "one more Drift", b.AddDrift(t.Context(), newDrift("1.2.3", "a", "more")), modproxy.ErrUnavailable)
	must(t, b.AddDrift(t.Context(), newDrift("1.2.3", "a", "0")))
	must(t, b.AddDrift(t.Context(), newDrift("1.2.4", "a", "more")))
	if n := len(list(t, a.Drifts(t.Context()))); n != ledger.MaxDrifts+1 {
		t.Errorf("%d drifts, want %d", n, ledger.MaxDrifts+1)
	}
}
