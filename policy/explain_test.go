package policy_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/policy"
)

// world returns a gate and a version. Most inputs of the gate's verdicts are about that version.
func (m maker) world() (*policy.Gate, modproxy.Ref) {
	about := m.module().At(m.version())
	module := func() modproxy.Address {
		if m.Intn(2) == 0 {
			return about.Address
		}
		return m.module()
	}
	b, s, c := &book{}, firstSeenTimes{}, m.config()
	for range m.Intn(3) {
		b.record(module().At(about.Version), modproxy.Sum(m.pick("h1:a", "h1:b")))
	}
	for range m.Intn(5) {
		d := modproxy.Decision{
			Address: module(), Versions: m.constraint().String(), By: "eve", Reason: "because", Time: time.Now(),
			Action: modproxy.Action(m.pick("block", "reject", "approve", "approve", "approve", "deprecate")),
		}
		if m.Intn(3) == 0 {
			d.Until = time.Now().Add(time.Duration(m.Intn(3)-1) * time.Hour)
		}
		b.add(d)
	}
	for range m.Intn(4) {
		seen := map[string]modproxy.VersionDates{}
		for range m.Intn(5) {
			seen[m.version()] = modproxy.VersionDates{Seen: time.Now().Add(-time.Duration(m.Intn(3)) * 45 * time.Minute)}
		}
		s[module()] = modproxy.FirstSeen{Module: time.Now().Add(-2 * time.Hour), Versions: seen}
	}
	if c.DefaultDeny && m.Intn(2) == 0 {
		locked := []policy.Locked{{about, "h1:a"}, {about, "h1:b"}}
		c.Rules = append(c.Rules, policy.Rule{Place: "lock", Locked: locked[:1+m.Intn(2)]})
	}
	if c.DefaultDeny && m.Intn(8) == 0 { // few versions are only unapproved by chance
		c.Rules = append(c.Rules, policy.Rule{Place: "review", Allow: pattern(m.t, "*/*/*/*"), Approval: true})
	}
	g := policy.NewGate(b, s)
	g.Use(compile(m.t, c))
	return g, about
}

// An explanation has the verdict of Decide, and its steps lead to that verdict.
func TestExplain(t *testing.T) {
	m := newMaker(t)
	seen := map[policy.Outcome]int{}
	for range rounds / 4 {
		g, subject := m.world()
		for range 6 {
			about, v := subject.Address, subject.Version
			switch m.Intn(8) {
			case 0:
				v = ""
			case 1:
				v = m.version()
			case 2:
				about = m.module()
			}
			ctx := modproxy.WithClient(t.Context(), modproxy.Client{Groups: m.groups()})
			want, err := g.Decide(ctx, about.At(v))
			if err != nil {
				t.Fatal(err)
			}
			got, steps, err := g.Explain(ctx, about.At(v))
			if err != nil || got != want {
				t.Fatalf("%s %s: explained as %+v, %v; decided %+v", about, v, got, err, want)
			}
			if led := leadTo(steps); led != want.Outcome {
				t.Fatalf("%s %s by %+v: %s, and the steps lead to %s: %+v", about, v, g.Rules().Config, want.Outcome, led, steps)
			}
			if want.Rule != nil && !slices.ContainsFunc(steps, func(s policy.Step) bool {
				return s.Place == want.Rule.Place && s.Rule == want.Rule.String() && s.Outcome == want.Outcome
			}) {
				t.Fatalf("%s %s by %+v: no step is that of %+v: %+v", about, v, g.Rules().Config, want.Rule, steps)
			}
			seen[want.Outcome]++
		}
	}
	if len(seen) < 9 {
		t.Errorf("the questions are too easy: %v", seen)
	}
}

// leadTo returns the outcome that follows from steps, by the package comment.
func leadTo(steps []policy.Step) policy.Outcome {
	order := []policy.Outcome{
		policy.Reserved, policy.Blocked, policy.Rejected, policy.Denied, // outcomes that refuse regardless of other steps
		policy.Allowed, policy.TooYoung, policy.Unapproved, policy.NotLocked, policy.NotAllowed,
	}
	for _, outcome := range order {
		if slices.ContainsFunc(steps, func(s policy.Step) bool { return s.Outcome == outcome }) {
			return outcome
		}
	}
	return ""
}

// The steps have these texts, in the order of the rules.
func TestExplainWords(t *testing.T) {
	f := newFixture(rules(t, "allow "+all+" >= 2.0", "deny */*/*/aws 1.1.0", "allow group=dev "+all, "allow approval "+all, "allow */*/*/azurerm", "allow age=24h "+all))
	f.book.decide(modproxy.Deprecate, "")
	words := func(v string) (lines []string) {
		_, steps, err := f.Gate.Explain(t.Context(), vpc.At(v))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			lines = append(lines, fmt.Sprintf("%s: %s: %s", s.Place, s.Rule, s.Says))
		}
		return lines
	}
	want := []string{
		"decision: deprecate: by eve: because",
		"p:1: allow " + all + " >= 2.0: is about other versions",
		"p:2: deny */*/*/aws 1.1.0: denies it",
		"p:3: allow " + all + ": is for dev only",
		"p:4: allow " + all + ": would allow it when it is approved",
		"p:6: allow " + all + ": would allow it when it has been listed for 1 day",
	}
	if diff := cmp.Diff(want, words("1.1.0")); diff != "" {
		t.Error(diff)
	}
	f.book.decide(modproxy.Approve, "1.1.0")
	if err := f.Gate.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	want[4], want[5] = "p:4: allow "+all+": allows it: it is approved", "p:6: allow "+all+": allows it: it is approved"
	want = slices.Insert(want, 0, "decision: approve 1.1.0: by eve: because")
	if diff := cmp.Diff(want, words("1.1.0")); diff != "" {
		t.Error(diff)
	}
	want = []string{
		"p:1: allow " + all + " >= 2.0: can allow versions",
		"p:2: deny */*/*/aws 1.1.0: denies versions",
		"p:3: allow " + all + ": is for dev only",
		"p:4: allow " + all + ": can allow versions",
		"p:6: allow " + all + ": can allow versions",
	}
	if diff := cmp.Diff(want, words("")); diff != "" {
		t.Error(diff)
	}
	f.Gate.Use(rules(t))
	if diff := cmp.Diff([]string{"policy.default: deny: denies it: no rule allows it"}, words("")); diff != "" {
		t.Error(diff)
	}
}

// An explanation looks up its facts once, for any number of rules.
func TestExplainIsCheap(t *testing.T) {
	c := policy.Config{DefaultDeny: true}
	for i := range 10_000 {
		c.Rules = append(c.Rules, rule(t, i, "allow age=24h "+all))
	}
	s := &countedSights{}
	g := policy.NewGate(&book{}, s)
	g.Use(compile(t, c))
	_, steps, err := g.Explain(t.Context(), vpc.At("1.0.0"))
	if err != nil || len(steps) != 10_000 || s.asked != 1 {
		t.Errorf("%d steps, %v; the first-seen times were asked %d times", len(steps), err, s.asked)
	}
}

type countedSights struct{ asked int }

func (c *countedSights) See(context.Context, modproxy.Address, *modproxy.Versions) {}

func (c *countedSights) Of(context.Context, modproxy.Address) (modproxy.FirstSeen, error) {
	c.asked++
	return modproxy.FirstSeen{}, nil
}
