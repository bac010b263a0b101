package history_test

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/policy"
)

// book is a ledger with some records and decisions.
type book struct {
	records   map[modproxy.Ref]modproxy.Record
	decisions []modproxy.Decision
	err       error // returned by Lookup
}

func (b *book) Lookup(_ context.Context, v modproxy.Ref) (modproxy.Record, error) {
	if rec, ok := b.records[v]; ok {
		return rec, nil
	}
	return modproxy.Record{}, cmp.Or(b.err, fs.ErrNotExist)
}

func (b *book) Decisions(_ context.Context, from int64) ([]modproxy.Decision, int64, error) {
	return b.decisions[from:], int64(len(b.decisions)), nil
}

// refusing puts a policy layer over f's registry. It allows versions that are a day old. The list is cached: the registry of
// vpc is not asked again.
func refusing(t *testing.T, f *fixture, b *book, change func(*policy.Config)) *policy.Registry {
	t.Helper()
	all, err := policy.ParsePattern("*/*/*/*")
	if err != nil {
		t.Fatal(err)
	}
	c := policy.Config{DefaultDeny: true, Rules: []policy.Rule{{Place: "p:1", Allow: all, MinAge: 24 * time.Hour}}}
	if change != nil {
		change(&c)
	}
	rules, err := policy.Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	g := policy.NewGate(b, f.FirstSeen)
	g.Use(rules)
	return &policy.Registry{Next: f.next, Gate: g}
}

func firstAllow(c *policy.Config) { c.FirstAllow = true }

// outcome returns the verdict about a version of vpc.
func outcome(t *testing.T, r *policy.Registry, version string) policy.Outcome {
	t.Helper()
	verdict, err := r.Gate.Decide(t.Context(), vpc.At(version))
	if err != nil {
		t.Fatal(err)
	}
	return verdict.Outcome
}

// A list that was cached before first-seen times were recorded makes its versions seen at the time of the list.
func TestKeptList(t *testing.T) {
	for _, test := range []struct {
		age  time.Duration
		want policy.Outcome
	}{{time.Hour, policy.TooYoung}, {48 * time.Hour, policy.Allowed}} {
		for _, first := range []string{"versions", "location"} {
			later(t, func(t *testing.T, f *fixture) {
				f.next.list("1.0.0")
				f.next.age = test.age
				r := refusing(t, f, &book{}, nil)
				equal(t, "nobody has looked", outcome(t, r, "1.0.0"), policy.TooYoung)
				if first == "versions" {
					_, _ = r.Versions(t.Context(), vpc)
				} else {
					_, _ = r.Location(t.Context(), vpc.At("2.0.0"))
				}
				equal(t, first, outcome(t, r, "1.0.0"), test.want)
				equal(t, "not listed", outcome(t, r, "2.0.0"), policy.TooYoung)
			})
		}
	}
}

// A lost record does not make a version older, even if first_contact is allow. The ledger still counts.
func TestLostRecord(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		f.list(t, "1.0.0 1.1.0")
		b := &book{}
		r := refusing(t, f, b, firstAllow)
		equal(t, "listed when it was first seen", outcome(t, r, "1.0.0"), policy.Allowed)
		b.records = map[modproxy.Ref]modproxy.Record{vpc.At("1.0.0"): {Ref: vpc.At("1.0.0"), Time: time.Now()}}
		time.Sleep(time.Hour)
		f.list(t, "1.0.0 1.1.0 2.0.0")
		equal(t, "listed later", outcome(t, r, "2.0.0"), policy.TooYoung)

		f.storage.Damage(refOf(vpc))
		f.restart()
		r = refusing(t, f, b, firstAllow)
		f.list(t, "1.0.0 1.1.0 2.0.0")
		for _, version := range []string{"1.0.0", "1.1.0", "2.0.0"} {
			equal(t, version+" after the loss", outcome(t, r, version), policy.TooYoung)
		}
		time.Sleep(23 * time.Hour)
		equal(t, "as old as in the ledger", outcome(t, r, "1.0.0"), policy.Allowed)
		equal(t, "as old as the loss", outcome(t, r, "1.1.0"), policy.TooYoung)
		time.Sleep(time.Hour)
		equal(t, "as old as the loss", outcome(t, r, "1.1.0"), policy.Allowed)
	})
}

// After all records are lost, a module with a version in the ledger does not count as new.
func TestLostIndex(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		b := &book{records: map[modproxy.Ref]modproxy.Record{vpc.At("1.0.0"): {Ref: vpc.At("1.0.0"), Time: time.Now()}}}
		time.Sleep(48 * time.Hour)
		f.ledger = b
		f.list(t, "1.0.0 1.1.0")
		r := refusing(t, f, b, firstAllow)
		equal(t, "as old as in the ledger", outcome(t, r, "1.0.0"), policy.Allowed)
		equal(t, "as old as the loss", outcome(t, r, "1.1.0"), policy.TooYoung)
		time.Sleep(24 * time.Hour)
		equal(t, "a day later", outcome(t, r, "1.1.0"), policy.Allowed)
	})
}

// An unreadable ledger does not make a version older.
func TestLostIndexAndLedger(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		f.ledger = &book{err: errors.New("input/output error")}
		f.next.list("1.0.0")
		_, err := f.Versions(t.Context(), vpc)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "not seen", outcome(t, refusing(t, f, &book{}, firstAllow), "1.0.0"), policy.TooYoung)
		f.ledger = &book{}
		f.list(t, "1.0.0")
		equal(t, "seen", outcome(t, refusing(t, f, &book{}, firstAllow), "1.0.0"), policy.Allowed)
	})
}

// The registry of a denied module is not asked for dates, even if the module was seen before.
func TestRefusedIsNotDated(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*policy.Config)
		block  string
		want   policy.Outcome
	}{
		"denied": {func(c *policy.Config) {
			c.Rules = append(c.Rules, policy.Rule{Place: "p:2", Deny: c.Rules[0].Allow})
		}, "none", policy.Denied},
		"one version is denied": {func(c *policy.Config) {
			exact, _ := modproxy.ParseConstraint("1.0.0")
			c.Rules = append(c.Rules, policy.Rule{Place: "p:2", Deny: c.Rules[0].Allow, Versions: exact})
		}, "none", policy.Denied},
		"reserved": {func(c *policy.Config) {
			c.Reserved = []policy.Reserve{{Namespace: "acme", Hosts: []string{"private.example.com"}}}
		}, "none", policy.Reserved},
		"blocked":                {nil, "", policy.Blocked},
		"one version is blocked": {nil, "1.0.0", policy.Blocked},
		"too young":              {nil, "none", policy.TooYoung},
	} {
		t.Run(name, func(t *testing.T) {
			later(t, func(t *testing.T, f *fixture) {
				f.list(t, "1.0.0")
				b := &book{}
				if test.block != "none" {
					b.decisions = []modproxy.Decision{{Address: vpc, Action: modproxy.Block, Versions: test.block, By: "eve", Time: now}}
				}
				r := refusing(t, f, b, test.change)
				equal(t, "verdict", outcome(t, r, "1.0.0"), test.want)
				_, _ = r.Versions(t.Context(), vpc)
				_, _ = r.Location(t.Context(), vpc.At("1.0.0"))
				_, _ = r.Package(t.Context(), vpc.At("1.0.0"))
				equal(t, "asked", f.dates.asks() == "1.0.0", test.want == policy.TooYoung)
			})
		})
	}
}

// A client receives an answer in time although the registry does not return dates. Clients send two requests, each with a
// timeout of 10 seconds.
func TestAnswersInTime(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		f.dates.takes = time.Hour
		f.next.list("1.0.0 1.1.0")
		r := refusing(t, f, &book{}, nil)
		for _, ask := range []func() error{
			func() error { _, err := r.Versions(t.Context(), vpc); return err },
			func() error { _, err := r.Location(t.Context(), vpc.At("1.0.0")); return err },
			func() error { _, err := r.Location(t.Context(), vpc.At("3.0.0")); return err },
		} {
			began := time.Now()
			if err := ask(); err == nil {
				t.Error("not refused")
			}
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("it took %v", took)
			}
		}
	})
}

// A module in another spelling is not new: the ledger has seen it, and has the age of its versions.
func TestAgeOfAnotherSpelling(t *testing.T) {
	later(t, func(t *testing.T, f *fixture) {
		l := ledgertest.NewMemory()
		rec := ledgertest.NewRecord(modproxy.Address{Host: vpc.Host, Namespace: "ACME", Name: "Vpc", System: "aws"}, "1.0.0", "a")
		rec.Time = time.Now().Add(-48 * time.Hour)
		if err := l.Add(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		f.ledger = l
		r := refusing(t, f, &book{}, firstAllow)
		r.Gate.Ledger = l
		f.list(t, "1.0.0 2.0.0")
		equal(t, "as old as its record", outcome(t, r, "1.0.0"), policy.Allowed)
		equal(t, "of a module that was seen before", outcome(t, r, "2.0.0"), policy.TooYoung)
	})
}
