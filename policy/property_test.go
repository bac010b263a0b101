package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/policy"
)

// rounds is the number of generated rule sets. Each is asked several questions.
const rounds = 4000

// maker generates rules and questions that are often about each other.
type maker struct {
	*rand.Rand
	t testing.TB
}

func newMaker(t testing.TB) maker {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	return maker{rand.New(rand.NewSource(seed)), t}
}

func (m maker) pick(from ...string) string { return from[m.Intn(len(from))] }

func (m maker) module() modproxy.Address {
	return modproxy.Address{
		Host:      m.pick("r.example.com", "r.example.org:8443", "x"),
		Namespace: m.pick("corp", "corp-evil", "a", "ab", "aba"),
		Name:      m.pick("vpc", "vpc-x", "b"),
		System:    m.pick("aws", "gcp"),
	}
}

func (m maker) version() string {
	return m.pick("0.9.0", "1.0.0", "1.2.0", "1.2.3", "1.2.3-rc1", "2.0.0", "2.0.0-beta.2")
}

func (m maker) pattern() policy.Pattern {
	return pattern(m.t, strings.Join([]string{
		m.pick("*", "r.example.com", "*.example.*", "r.*", "x", "*:8443"),
		m.pick("*", "corp", "corp*", "corp-*", "a*a", "*a*", "ab", "*-evil"),
		m.pick("*", "vpc", "vpc*", "*-x", "b"),
		m.pick("*", "aws", "g*"),
	}, "/"))
}

func (m maker) constraint() modproxy.Constraint {
	return constraint(m.t, m.pick("", "", "1.2", ">= 1.0", "< 2", "~> 1.2", "!= 1.2.3", "1.2.3-rc1", ">= 1, < 1.2"))
}

func (m maker) groups() (groups []string) {
	for _, g := range []string{"a", "b", "c"} {
		if m.Intn(4) == 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

func (m maker) rule(kind int) policy.Rule {
	r := policy.Rule{Place: fmt.Sprint("p:", m.Intn(1000)), Groups: m.groups()}
	switch kind {
	case 0:
		r.Deny, r.Versions = m.pattern(), m.constraint()
	case 1:
		r.Allow, r.Versions = m.pattern(), m.constraint()
		r.MinAge = time.Duration(m.Intn(3)) * time.Hour
		r.Approval = m.Intn(4) == 0
	default:
		r.Locked = []policy.Locked{}
		for range m.Intn(8) {
			r.Locked = append(r.Locked, policy.Locked{m.module().At(m.version()), modproxy.Sum(m.pick("h1:a", "h1:b"))})
		}
	}
	return r
}

func (m maker) config() policy.Config {
	c := policy.Config{DefaultDeny: m.Intn(3) > 0, FirstAllow: m.Intn(2) == 0}
	for range m.Intn(7) {
		kind := m.Intn(5) - 1 // as many rules allow as deny
		if !c.DefaultDeny {
			kind = 0
		} else if kind < 0 {
			kind = 1
		}
		c.Rules = append(c.Rules, m.rule(kind))
	}
	if m.Intn(5) == 0 {
		c.Reserved = append(c.Reserved, policy.Reserve{Namespace: m.pick("corp*", "*a*", "ab"), Hosts: []string{m.pick("r.example.com", "x")}})
	}
	return c
}

// question is the input of [policy.Selection.Decide].
type question struct {
	module  modproxy.Address
	version string
	groups  []string
	facts   policy.VersionFacts
	decided policy.Decided
}

func (m maker) question() question {
	q := question{module: m.module(), version: m.version(), groups: m.groups()}
	past := func() time.Time { return day.Add(-time.Duration(m.Intn(4)) * 45 * time.Minute) }
	if m.Intn(2) == 0 {
		q.facts.Since = past()
	}
	if m.Intn(2) == 0 {
		q.facts.ModuleSeen = past()
	}
	q.facts.Sum = modproxy.Sum(m.pick("", "h1:a", "h1:b", "h1:c"))
	if m.Intn(8) == 0 {
		q.decided.Block = &modproxy.Decision{Action: modproxy.Block}
	}
	if m.Intn(4) == 0 {
		q.decided.Review = &modproxy.Decision{Action: modproxy.Action(m.pick("approve", "approve", "reject"))}
		if m.Intn(2) == 0 {
			q.decided.Review.Until = past().Add(time.Hour)
		}
	}
	return q
}

func (q question) ask(t testing.TB, r *policy.Rules) policy.Verdict {
	return r.For(q.module, q.groups).Decide(version(t, q.version), q.facts, q.decided, day)
}

// Deny wins over everything else, and no rule is overlooked.
func TestDenyWins(t *testing.T) {
	m := newMaker(t)
	outcomes := map[policy.Outcome]int{}
	for range rounds {
		r := compile(t, m.config())
		for range 4 {
			q := m.question()
			got := q.ask(t, r)
			outcomes[got.Outcome]++
			denied := slices.ContainsFunc(r.Rules, func(rule policy.Rule) bool {
				return rule.Deny.Match(q.module) && rule.Versions.Covers(version(t, q.version)) && isFor(rule, q.groups)
			})
			if denied && !got.Refused() || !denied && got.Outcome == policy.Denied {
				t.Fatalf("%+v by %+v: %s; denied: %v", q, r.Config, got.Outcome, denied)
			}
			if (q.decided.Block != nil || q.decided.Review != nil && q.decided.Review.Action == modproxy.Reject) && !got.Refused() {
				t.Fatalf("%+v by %+v: %s in spite of a decision", q, r.Config, got.Outcome)
			}
			if got.Outcome == policy.Allowed && r.DefaultDeny && got.Rule == nil {
				t.Fatalf("%+v by %+v: allowed by nothing", q, r.Config)
			}
			if sel := r.For(q.module, q.groups); sel.Module().Refused() && !got.Refused() {
				t.Fatalf("%+v by %+v: %s, and the module is %s", q, r.Config, got.Outcome, sel.Module().Outcome)
			}
		}
	}
	if len(outcomes) < 9 {
		t.Errorf("the questions are too easy: %v", outcomes)
	}
}

func isFor(r policy.Rule, groups []string) bool {
	return len(r.Groups) == 0 || slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(r.Groups, g) })
}

// The order of rules does not change the verdict.
func TestOrderDoesNotMatter(t *testing.T) {
	m := newMaker(t)
	for range rounds {
		c := m.config()
		r := compile(t, c)
		m.Shuffle(len(c.Rules), func(i, j int) { c.Rules[i], c.Rules[j] = c.Rules[j], c.Rules[i] })
		shuffled := compile(t, c)
		for range 4 {
			q := m.question()
			a, b := q.ask(t, r), q.ask(t, shuffled)
			if a.Outcome != b.Outcome || !a.Until.Equal(b.Until) {
				t.Fatalf("%+v by %+v: %s until %v, in another order %s until %v", q, c, a.Outcome, a.Until, b.Outcome, b.Until)
			}
			if a, b := r.For(q.module, q.groups).Module(), shuffled.For(q.module, q.groups).Module(); a.Outcome != b.Outcome {
				t.Fatalf("%s by %+v: %s, in another order %s", q.module, c, a.Outcome, b.Outcome)
			}
		}
	}
}

// Another deny allows nothing more, and another allow denies nothing more. A reserved namespace allows nothing more.
func TestMoreRules(t *testing.T) {
	m := newMaker(t)
	for i := range rounds {
		c := m.config()
		kind := i % 3
		c.DefaultDeny = c.DefaultDeny || kind > 0
		r := compile(t, c)
		more := c
		more.Rules = append(slices.Clone(c.Rules), m.rule(kind))
		grown := compile(t, more)
		more = c
		more.Reserved = append(slices.Clone(c.Reserved), policy.Reserve{Namespace: m.pick("corp*", "*"), Hosts: []string{"x"}})
		reserved := compile(t, more)
		for range 4 {
			q := m.question()
			before, after := q.ask(t, r), q.ask(t, grown)
			if kind == 0 && before.Refused() && !after.Refused() || kind > 0 && !before.Refused() && after.Refused() {
				t.Fatalf("%+v by %+v: %s, with one more rule %s", q, grown.Config, before.Outcome, after.Outcome)
			}
			if before.Refused() && !q.ask(t, reserved).Refused() {
				t.Fatalf("%+v by %+v: allowed when a namespace is reserved", q, reserved.Config)
			}
		}
	}
}

// An older version is not refused for more reasons. Time refuses only a version whose approval ends. A version is too
// young exactly until the time in its verdict.
func TestAge(t *testing.T) {
	m := newMaker(t)
	told := 0
	for range rounds {
		r := compile(t, m.config())
		for range 4 {
			q := m.question()
			at := func(q question, now time.Time) policy.Verdict {
				return r.For(q.module, q.groups).Decide(version(t, q.version), q.facts, q.decided, now)
			}
			got, older := q.ask(t, r), q
			if older.facts.Since = day.Add(-time.Duration(1+m.Intn(4)) * time.Hour); q.facts.Since.IsZero() {
				older.facts.Since = q.facts.ModuleSeen.Add(-time.Hour)
			} else if older.facts.Since.After(q.facts.Since) {
				older.facts.Since = q.facts.Since
			}
			unknown := q.facts.Since.IsZero() && r.FirstAllow // with FirstAllow, an unknown age may be better than a known one
			if now := at(older, day); now.Refused() && !got.Refused() && !unknown {
				t.Fatalf("%+v by %+v: %s, and %s when it is older", q, r.Config, got.Outcome, now.Outcome)
			}
			if after := at(q, day.Add(time.Hour)); q.decided.Review == nil && after.Refused() && !got.Refused() {
				t.Fatalf("%+v by %+v: %s, and %s an hour later", q, r.Config, got.Outcome, after.Outcome)
			}
			if got.Outcome != policy.TooYoung || got.Until.IsZero() {
				continue
			}
			told++
			before, then := at(q, got.Until.Add(-1)), at(q, got.Until)
			early := then.Outcome == policy.TooYoung && !got.Rule.Approval // another rule may be too young, too
			if before.Outcome != policy.TooYoung || !before.Until.Equal(got.Until) || early {
				t.Fatalf("%+v by %+v: too young until %v; a tick before then %+v, and then %+v", q, r.Config, got.Until, before, then)
			}
		}
	}
	if told < 5 {
		t.Errorf("%d versions are too young: that is too easy", told)
	}
}

// All spellings of an address and a version have the same verdict.
func TestSpellingDoesNotMatter(t *testing.T) {
	m := newMaker(t)
	for range rounds {
		r := compile(t, m.config())
		for range 4 {
			q := m.question()
			odd := q
			odd.module.Namespace = m.capitals(q.module.Namespace)
			odd.module.Name = m.capitals(q.module.Name)
			odd.module.System = m.capitals(q.module.System)
			odd.module.Host = m.capitals(q.module.Host)
			odd.version = m.pick("", "v") + strings.TrimSuffix(q.version, ".0")
			a, b := q.ask(t, r), odd.ask(t, r)
			if a.Outcome != b.Outcome || !a.Until.Equal(b.Until) || a.Rule != b.Rule {
				t.Fatalf("%s %s is %+v, %s %s is %+v by %+v", q.module, q.version, a, odd.module, odd.version, b, r.Config)
			}
			if a, b := r.For(q.module, q.groups).Module(), r.For(odd.module, q.groups).Module(); a != b {
				t.Fatalf("%s is %+v, %s is %+v", q.module, a, odd.module, b)
			}
		}
	}
}

func (m maker) capitals(s string) string {
	b := []byte(s)
	for i := range b {
		if m.Intn(2) == 0 {
			b[i] = strings.ToUpper(string(b[i]))[0]
		}
	}
	return string(b)
}

// Rules that were sent to another process make the same verdicts.
func TestConfigIsSent(t *testing.T) {
	m := newMaker(t)
	for range rounds / 4 {
		c := m.config()
		text, err := json.Marshal(c)
		var sent policy.Config
		if err := errors.Join(err, json.Unmarshal(text, &sent)); err != nil {
			t.Fatal(err)
		}
		here, there := compile(t, c), compile(t, sent)
		for range 4 {
			q := m.question()
			a, b := q.ask(t, here), q.ask(t, there)
			if a.Outcome != b.Outcome || !a.Until.Equal(b.Until) || (a.Rule == nil) != (b.Rule == nil) || a.Rule != nil && a.Rule.String() != b.Rule.String() {
				t.Fatalf("%+v by %+v: %+v, and sent %+v", q, c, a, b)
			}
		}
	}
}

// The index returns the rules that a scan finds, each once.
func TestIndex(t *testing.T) {
	m := newMaker(t)
	for range rounds {
		r := compile(t, m.config())
		for range 4 {
			about := m.module()
			var want []string
			for i := range r.Rules {
				if rule := &r.Rules[i]; rule.Allow.Match(about) || rule.Deny.Match(about) {
					want = append(want, fmt.Sprintf("%p", rule))
				}
			}
			var got []string
			for _, rule := range r.Find(about) {
				got = append(got, fmt.Sprintf("%p", rule))
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("%s by %+v: %d rules, want %d", about, r.Config, len(got), len(want))
			}
		}
	}
}

// A gate decides as its rules do: remembering a selection changes nothing.
func TestGateRemembers(t *testing.T) {
	m := newMaker(t)
	for range rounds / 20 {
		c := m.config()
		r := compile(t, c)
		g := policy.NewGate(&book{}, nil)
		g.Use(r)
		for range 40 {
			q := m.question()
			want := r.For(q.module, q.groups).Decide(version(t, q.version), policy.VersionFacts{}, policy.Decided{}, day)
			ctx := modproxy.WithClient(t.Context(), modproxy.Client{Groups: q.groups})
			got, err := g.Decide(ctx, q.module.At(q.version))
			if err != nil || got.Outcome != want.Outcome || got.Rule != want.Rule {
				t.Fatalf("%+v by %+v: %+v, %v; want %+v", q, c, got, err, want)
			}
		}
	}
}
