package policy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/policy"
)

const host = "registry.example.com"

var (
	vpc = modproxy.Address{Host: host, Namespace: "acme", Name: "vpc", System: "aws"}
	// day is the current time of the tests.
	day = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
)

func pattern(t testing.TB, s string) policy.Pattern {
	t.Helper()
	p, err := policy.ParsePattern(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func constraint(t testing.TB, s string) (c modproxy.Constraint) {
	t.Helper()
	if s != "" {
		var err error
		if c, err = modproxy.ParseConstraint(s); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func version(t testing.TB, s string) modproxy.Version {
	t.Helper()
	v, err := modproxy.ParseVersion(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func compile(t testing.TB, c policy.Config) *policy.Rules {
	t.Helper()
	r, err := policy.Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rules compiles lines such as "allow host/ns/name/system >= 1.0" and "deny …". Their places are p:1, p:2 and so on. If
// no line denies, the default is deny.
func rules(t testing.TB, lines ...string) *policy.Rules {
	t.Helper()
	c := policy.Config{DefaultDeny: true}
	for _, line := range lines {
		c.Rules = append(c.Rules, rule(t, len(c.Rules)+1, line))
	}
	return compile(t, c)
}

// rule reads a line. Words before the pattern, such as group=dev, age=24h and approval, are conditions.
func rule(t testing.TB, n int, line string) (r policy.Rule) {
	t.Helper()
	r.Place = fmt.Sprint("p:", n)
	words := strings.Fields(line)
	for i, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "group":
			r.Groups = append(r.Groups, value)
		case "age":
			age, err := time.ParseDuration(value)
			if err != nil {
				t.Fatal(err)
			}
			r.MinAge = age
		case "approval":
			r.Approval = true
		default:
			if words[0] == "deny" {
				r.Deny = pattern(t, word)
			} else {
				r.Allow = pattern(t, word)
			}
			r.Versions = constraint(t, strings.Join(words[i+2:], " "))
			return r
		}
	}
	t.Fatalf("%q has no pattern", line)
	return r
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// book is a ledger in memory.
type book struct {
	mu      sync.Mutex
	list    []modproxy.Decision
	records map[modproxy.Ref]modproxy.Record
	err     error // if not nil, returned by every method
	asked   int
}

func (b *book) decide(action modproxy.Action, versions string) {
	b.add(modproxy.Decision{Address: vpc, Action: action, Versions: versions, By: "eve", Reason: "because", Time: day})
}

func (b *book) add(d modproxy.Decision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, d)
}

func (b *book) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

// record records that a version was first seen now.
func (b *book) record(v modproxy.Ref, sum modproxy.Sum) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.records == nil {
		b.records = map[modproxy.Ref]modproxy.Record{}
	}
	b.records[v] = modproxy.Record{Ref: v, Sum: sum, Time: time.Now()}
}

func (b *book) Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rec, ok := b.records[v]
	switch {
	case b.err != nil:
		return modproxy.Record{}, b.err
	case !ok:
		return modproxy.Record{}, fs.ErrNotExist
	}
	return rec, ctx.Err()
}

func (b *book) Decisions(ctx context.Context, from int64) ([]modproxy.Decision, int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	if err := errors.Join(b.err, ctx.Err()); err != nil {
		return nil, 0, err
	}
	return append([]modproxy.Decision(nil), b.list[from:]...), int64(len(b.list)), nil
}

// firstSeenTimes contains first-seen times by the folded address of a module.
type firstSeenTimes map[modproxy.Address]modproxy.FirstSeen

func (s firstSeenTimes) Of(_ context.Context, m modproxy.Address) (modproxy.FirstSeen, error) {
	return s[m.Folded()], nil
}

func (s firstSeenTimes) See(context.Context, modproxy.Address, *modproxy.Versions) {}

type sightsFail struct{}

func (sightsFail) See(context.Context, modproxy.Address, *modproxy.Versions) {}

func (sightsFail) Of(context.Context, modproxy.Address) (modproxy.FirstSeen, error) {
	return modproxy.FirstSeen{}, errors.New("no first-seen times")
}

// next is a registry with set answers that counts requests.
type next struct {
	mu      sync.Mutex
	count   map[string]int
	listed  string // versions, separated by spaces
	hit     bool
	stale   bool
	sum     modproxy.Sum
	opened  func() // called when a package was opened
	closed  int
	content string
}

func (n *next) ask(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.count == nil {
		n.count = map[string]int{}
	}
	n.count[what]++
}

func (n *next) Versions(_ context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	n.ask("versions")
	v, err := document(n.listed)
	if m.IsProvider() {
		_, list, _ := strings.Cut(string(v.Document), `{"versions":`)
		v, err = modproxy.ParseProviderVersions([]byte(`{"versions":` + strings.TrimSuffix(list, "]}")))
	}
	if err == nil {
		v.Hit, v.Stale, v.Time = n.hit, n.stale, day
	}
	return v, err
}

func document(listed string) (*modproxy.Versions, error) {
	var entries []string
	for version := range strings.FieldsSeq(listed) {
		entries = append(entries, fmt.Sprintf(`{"version": %q, "from": "upstream"}`, version))
	}
	return modproxy.ParseVersions([]byte(`{"modules": [{"versions": [` + strings.Join(entries, ",") + `]}]}`))
}

func (n *next) Location(_ context.Context, v modproxy.Ref) (modproxy.Location, error) {
	n.ask("location")
	return modproxy.Location{Getter: "https", URL: "https://files.example.com/" + v.Version}, nil
}

func (n *next) Package(_ context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	n.ask("package")
	if n.opened != nil {
		n.opened()
	}
	return &modproxy.Package{Body: &body{bytes.NewReader([]byte(n.content)), n}, Sum: n.sum, Size: int64(len(n.content))}, nil
}

// body is a package in memory.
type body struct {
	*bytes.Reader
	next *next
}

func (*body) Verify(context.Context) error { return nil }

func (b *body) Close() error {
	b.next.mu.Lock()
	defer b.next.mu.Unlock()
	b.next.closed++
	return nil
}

// fixture is a registry with a gate, a fake ledger and a fake next registry.
type fixture struct {
	*policy.Registry
	next   *next
	book   *book
	mu     sync.Mutex
	events []policy.Event
}

func newFixture(r *policy.Rules) *fixture {
	f := &fixture{next: &next{listed: "1.0.0 1.1.0 2.0.0", content: "content of the package"}, book: &book{}}
	f.Registry = &policy.Registry{Next: f.next, Gate: policy.NewGate(f.book, nil), Observe: f.observe}
	if r != nil {
		f.Gate.Use(r)
	}
	return f
}

func (f *fixture) observe(e policy.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
}

// versions returns the listed versions, or the text of the error.
func (f *fixture) versions(ctx context.Context) string {
	v, err := f.Versions(ctx, vpc)
	if err != nil {
		return err.Error()
	}
	return spellings(v)
}

func spellings(v *modproxy.Versions) string {
	var list []string
	for _, l := range v.List {
		list = append(list, l.Spelling)
	}
	return strings.Join(list, " ")
}

// outcome returns the outcome of a gate for a version of vpc.
func outcome(t testing.TB, g *policy.Gate, v string) policy.Outcome {
	t.Helper()
	verdict, err := g.Decide(t.Context(), vpc.At(v))
	if err != nil {
		t.Fatal(err)
	}
	return verdict.Outcome
}
