package policy_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/policy"
)

// After a call of Follow, a new decision counts at once.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(nil)
		equal(t, "before", outcome(t, f.Gate, "1.0.0"), policy.Allowed)
		f.book.decide(modproxy.Block, "")
		equal(t, "decided by another process", outcome(t, f.Gate, "1.0.0"), policy.Allowed)
		if err := f.Gate.Follow(t.Context()); err != nil {
			t.Fatal(err)
		}
		equal(t, "followed", outcome(t, f.Gate, "1.0.0"), policy.Blocked)
	})
}

// A decision of another process counts within a second. The ledger is read at most once a second.
func TestDecisionsAreSeenWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(rules(t, "allow "+all))
		equal(t, "before", outcome(t, f.Gate, "1.0.0"), policy.Allowed)
		f.book.decide(modproxy.Block, "1.0.0")
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			equal(t, "still", outcome(t, f.Gate, "1.0.0"), policy.Allowed)
		}
		equal(t, "asked", f.book.asked, 1)
		time.Sleep(time.Millisecond)
		equal(t, "after a second", outcome(t, f.Gate, "1.0.0"), policy.Blocked)
		equal(t, "asked again", f.book.asked, 2)
		equal(t, "another version", outcome(t, f.Gate, "1.1.0"), policy.Allowed)
		equal(t, "not asked again", f.book.asked, 2)
	})
}

// If decisions cannot be read, the decisions that were read earlier count.
func TestLedgerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(rules(t, "allow "+all))
		f.book.decide(modproxy.Block, "1.0.0")
		equal(t, "blocked", outcome(t, f.Gate, "1.0.0"), policy.Blocked)
		f.book.fail(errors.New("no disk"))
		f.book.decide(modproxy.Block, "1.1.0")
		for range 10 {
			time.Sleep(1100 * time.Millisecond)
			equal(t, "still blocked", outcome(t, f.Gate, "1.0.0"), policy.Blocked)
			equal(t, "not known", outcome(t, f.Gate, "1.1.0"), policy.Allowed)
		}
		if err := f.Gate.Follow(t.Context()); err == nil {
			t.Error("Follow does not fail")
		}
		f.book.fail(nil)
		time.Sleep(1100 * time.Millisecond)
		equal(t, "known", outcome(t, f.Gate, "1.1.0"), policy.Blocked)
		equal(t, "at last blocked", outcome(t, f.Gate, "1.0.0"), policy.Blocked)
	})
}

// If decisions were never read, nothing is allowed, even by a gate without rules.
func TestGateFailsClosed(t *testing.T) {
	for _, r := range []*policy.Rules{nil, rules(t, "allow "+all)} {
		f := newFixture(r)
		f.book.fail(errors.New("no disk"))
		_, err := f.Gate.Decide(t.Context(), vpc.At("1.0.0"))
		_, errVersions := f.Versions(t.Context(), vpc)
		_, errLocation := f.Location(t.Context(), vpc.At("1.0.0"))
		_, errPackage := f.Package(t.Context(), vpc.At("1.0.0"))
		for _, err := range []error{err, errVersions, errLocation, errPackage} {
			if !errors.Is(err, modproxy.ErrUnavailable) || errors.Is(err, modproxy.ErrDenied) {
				t.Errorf("%v is not unavailable", err)
			}
		}
		equal(t, "asked of next", len(f.next.count), 0)
		f.book.fail(nil)
		equal(t, "then", outcome(t, f.Gate, "1.0.0"), policy.Allowed)
	}
}

// A verdict fails if its facts cannot be read.
func TestFactsFail(t *testing.T) {
	f := newFixture(rules(t, "allow age=24h "+all))
	f.Gate.FirstSeen = sightsFail{}
	_, err := f.Gate.Decide(t.Context(), vpc.At("1.0.0"))
	if !errors.Is(err, modproxy.ErrUnavailable) {
		t.Error(err)
	}
	if _, err := f.Versions(t.Context(), vpc); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Error(err)
	}
	equal(t, "of another module", f.other(t), policy.NotAllowed)

	lock := policy.Rule{Locked: []policy.Locked{{vpc.At("1.0.0"), right}}}
	f = newFixture(compile(t, policy.Config{DefaultDeny: true, Rules: []policy.Rule{lock}}))
	equal(t, "locked", outcome(t, f.Gate, "1.0.0"), policy.Allowed)
	f.book.fail(errors.New("no disk"))
	if _, err := f.Gate.Decide(t.Context(), vpc.At("1.0.0")); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Error(err)
	}
	if _, err := f.Gate.Decide(t.Context(), vpc.At("latest")); !errors.Is(err, modproxy.ErrInvalid) {
		t.Error(err)
	}
}

func (f *fixture) other(t *testing.T) policy.Outcome {
	m := vpc
	m.Name = "other"
	verdict, err := f.Gate.Decide(t.Context(), m.At("1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	return verdict.Outcome
}

// The gate reads the first-seen times of versions, and the sum of a locked version.
func TestGateFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		f := newFixture(rules(t, "allow age=24h "+all))
		equal(t, "no age is known", outcome(t, f.Gate, "1.0.0"), policy.TooYoung)
		f.Gate.FirstSeen = firstSeenTimes{vpc: {Module: now, Versions: map[string]modproxy.VersionDates{
			"1.0.0": {}, "1.1.0": {Published: now.Add(-24 * time.Hour)}, "1.2.0": {Seen: now.Add(-time.Hour)},
		}}}
		equal(t, "listed when it was first seen", outcome(t, f.Gate, "1.0.0"), policy.TooYoung)
		equal(t, "published before", outcome(t, f.Gate, "1.1.0"), policy.Allowed)
		equal(t, "seen later", outcome(t, f.Gate, "1.2.0"), policy.TooYoung)
		time.Sleep(23*time.Hour - 1)
		equal(t, "seen later, a tick before", outcome(t, f.Gate, "1.2.0"), policy.TooYoung)
		time.Sleep(time.Nanosecond)
		equal(t, "seen later, old enough", outcome(t, f.Gate, "1.2.0"), policy.Allowed)
		time.Sleep(time.Hour)
		equal(t, "listed when it was first seen, old enough", outcome(t, f.Gate, "1.0.0"), policy.Allowed)

		f.Gate.Use(compile(t, policy.Config{DefaultDeny: true, Rules: []policy.Rule{{Locked: []policy.Locked{{vpc.At("1.0.0"), right}}}}}))
		f.book.record(vpc.At("1.0.0"), other)
		equal(t, "other content", outcome(t, f.Gate, "1.0.0"), policy.NotLocked)
		f.book.record(vpc.At("1.0.0"), right)
		equal(t, "the content", outcome(t, f.Gate, "1.0.0"), policy.Allowed)
	})
}

// New rules count for the next verdict, and decisions stay.
func TestUse(t *testing.T) {
	f := newFixture(nil)
	equal(t, "open", outcome(t, f.Gate, "1.0.0"), policy.Allowed)
	f.book.decide(modproxy.Block, "1.1.0")
	if err := f.Gate.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := rules(t, "deny "+all+" 1.0.0", "allow "+all)
	f.Gate.Use(r)
	equal(t, "rules", f.Gate.Rules(), r)
	equal(t, "denied", outcome(t, f.Gate, "1.0.0"), policy.Denied)
	equal(t, "blocked", outcome(t, f.Gate, "1.1.0"), policy.Blocked)
	f.Gate.Use(rules(t))
	equal(t, "not allowed", outcome(t, f.Gate, "1.0.0"), policy.NotAllowed)
	equal(t, "still blocked", outcome(t, f.Gate, "1.1.0"), policy.Blocked)
	equal(t, "the rules of a new gate", policy.NewGate(nil, nil).Rules().DefaultDeny, false)
}

// Rules change and decisions are made during many verdicts. After Follow has read a block, it holds in every later
// state.
func TestUseWhileDeciding(t *testing.T) {
	f := newFixture(rules(t, "allow "+all))
	f.book.decide(modproxy.Block, "9.9.9")
	if err := f.Gate.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	both := []*policy.Rules{rules(t, "allow age=24h "+all), rules(t, "deny "+all+" 1.0.0", "allow group=g1 "+all)}
	ctx, cancel := context.WithCancel(t.Context())
	var asking, changing sync.WaitGroup
	for i := range 4 {
		asking.Go(func() {
			ctx := modproxy.WithClient(t.Context(), modproxy.Client{Groups: []string{fmt.Sprint("g", i%2)}})
			for range 300 {
				if v, err := f.Gate.Decide(ctx, vpc.At("9.9.9")); err != nil || v.Outcome != policy.Blocked {
					t.Errorf("%s, %v", v.Outcome, err)
				}
				f.Versions(ctx, vpc)
				if p, err := f.Package(ctx, vpc.At("1.0.0")); err == nil {
					p.Read(make([]byte, 10))
					p.Close()
				}
			}
		})
	}
	changing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			f.Gate.Use(both[i%2])
			runtime.Gosched()
		}
	})
	changing.Go(func() {
		for i := 0; ctx.Err() == nil && i < 300; i++ {
			f.book.decide(modproxy.Block, fmt.Sprintf("2.%d.0", i))
			f.Gate.Follow(ctx)
		}
	})
	asking.Wait()
	cancel()
	changing.Wait()
}

// A version that was never listed is young, however long its module is known.
func TestUnlistedVersionIsYoung(t *testing.T) {
	for _, first := range []bool{false, true} {
		f := newFixture(compile(t, policy.Config{DefaultDeny: true, FirstAllow: first, Rules: []policy.Rule{rule(t, 1, "allow age=24h "+all)}}))
		f.Gate.FirstSeen = firstSeenTimes{vpc: {Module: time.Now().Add(-48 * time.Hour), Versions: map[string]modproxy.VersionDates{"1.0.0": {}}}}
		equal(t, fmt.Sprintf("first contact allows: %v; never listed", first), outcome(t, f.Gate, "6.6.6"), policy.TooYoung)
	}
}

// Recording the first download does not make a version younger if it was listed when the module was first seen.
func TestDownloadDoesNotMakeYoung(t *testing.T) {
	for _, first := range []bool{false, true} {
		f := newFixture(compile(t, policy.Config{DefaultDeny: true, FirstAllow: first, Rules: []policy.Rule{rule(t, 1, "allow age=24h "+all)}}))
		f.Gate.FirstSeen = firstSeenTimes{vpc: {Module: time.Now().Add(-48 * time.Hour), Versions: map[string]modproxy.VersionDates{"1.0.0": {}}}}
		equal(t, "before its first download", outcome(t, f.Gate, "1.0.0"), policy.Allowed)
		f.book.record(vpc.At("1.0.0"), right)
		equal(t, "after its first download", outcome(t, f.Gate, "1.0.0"), policy.Allowed)
	}
}

// The age does not depend on the spelling of the module.
func TestAgeBySpelling(t *testing.T) {
	f := newFixture(compile(t, policy.Config{DefaultDeny: true, FirstAllow: true, Rules: []policy.Rule{rule(t, 1, "allow age=24h "+all)}}))
	loud, now := vpc, time.Now()
	loud.Namespace = "ACME"
	f.Gate.FirstSeen = firstSeenTimes{vpc: {Module: now.Add(-48 * time.Hour), Versions: map[string]modproxy.VersionDates{"2.0.0": {Seen: now}}}}
	equal(t, "acme", outcome(t, f.Gate, "2.0.0"), policy.TooYoung)
	verdict, err := f.Gate.Decide(t.Context(), loud.At("2.0.0"))
	if err != nil || verdict.Outcome != policy.TooYoung {
		t.Errorf("ACME: %s, %v", verdict.Outcome, err)
	}
}

// A version with other build metadata is not older.
func TestAgeByMetadata(t *testing.T) {
	f := newFixture(rules(t, "allow age=24h "+all))
	now := time.Now()
	f.Gate.FirstSeen = firstSeenTimes{vpc: {Module: now.Add(-48 * time.Hour), Versions: map[string]modproxy.VersionDates{"2.0.0": {Seen: now}}}}
	equal(t, "2.0.0", outcome(t, f.Gate, "2.0.0"), policy.TooYoung)
	equal(t, "2.0.0+x", outcome(t, f.Gate, "2.0.0+x"), policy.TooYoung)
}

// If one rule allows a version, the verdict does not need the age for another rule.
func TestAgeMakesNoDifference(t *testing.T) {
	f := newFixture(rules(t, "allow "+all, "allow age=24h "+all))
	f.Gate.FirstSeen = sightsFail{}
	if _, err := f.Gate.Decide(t.Context(), vpc.At("1.0.0")); err != nil {
		t.Error(err)
	}
}

// Facts that do not affect the verdict are not read: reading dates would send requests about denied modules to
// registries.
func TestFactsThatMakeNoDifference(t *testing.T) {
	age := "allow age=24h " + all
	for name, r := range map[string]*policy.Rules{
		"denied":      rules(t, age, "deny "+all),
		"for others":  rules(t, "allow age=24h group=other "+all, "allow approval "+all),
		"other range": rules(t, age+" > 9"),
		"reserved":    compile(t, policy.Config{DefaultDeny: true, Rules: []policy.Rule{rule(t, 1, age)}, Reserved: []policy.Reserve{{Namespace: "acme"}}}),
	} {
		f := newFixture(r)
		f.Gate.FirstSeen = sightsFail{}
		verdict, err := f.Gate.Decide(t.Context(), vpc.At("1.0.0"))
		if err != nil || !verdict.Refused() {
			t.Errorf("%s: %s, %v", name, verdict.Outcome, err)
		}
	}
}

// Check refuses a version that is refused for every client.
func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		rules   *policy.Rules
		version string
		refused bool
	}{
		"no rules":           {compile(t, policy.Config{}), "1.0.0", false},
		"allowed to some":    {rules(t, "allow group=a "+all), "1.0.0", false},
		"denied to some":     {rules(t, "allow "+all, "deny group=a "+all), "1.0.0", false},
		"denied":             {rules(t, "allow group=a "+all, "deny "+all+" 1.0.0"), "1.0.0", true},
		"another is denied":  {rules(t, "allow group=a "+all, "deny "+all+" 1.0.0"), "2.0.0", false},
		"module, some of it": {rules(t, "allow group=a "+all, "deny "+all+" 1.0.0"), "", false},
		"module, denied":     {rules(t, "allow group=a "+all, "deny "+all), "", true},
		"module, by nothing": {rules(t), "", true},
		"audit, reserved":    {compile(t, policy.Config{Audit: true, Reserved: []policy.Reserve{{Namespace: "acme"}}}), "1.0.0", true},
		"audit":              {compile(t, policy.Config{Audit: true, Rules: []policy.Rule{rule(t, 1, "deny "+all)}}), "1.0.0", false},
	} {
		g := policy.NewGate(&book{}, nil)
		g.Use(test.rules)
		switch err := g.Check(t.Context(), vpc.At(test.version)); {
		case test.refused:
			equal(t, name, refusalOf(t, err).Ref.String(), vpc.At(test.version).String())
		case err != nil:
			t.Errorf("%s: %v", name, err)
		}
	}
	g := gate(rules(t, "allow group=a "+all), made{modproxy.Block, "1.0.0"})
	equal(t, "blocked", refusalOf(t, g.Check(t.Context(), vpc.At("1.0.0"))).Outcome, policy.Blocked)
}

// A version that waits for approval may be downloaded for review. Every other refused version may not.
func TestCheckFetch(t *testing.T) {
	g := gate(rules(t, "allow group=a approval "+all), made{modproxy.Block, "2.0.0"}, made{modproxy.Reject, "3.0.0"})
	for version, want := range map[string]policy.Outcome{"1.0.0": "", "2.0.0": policy.Blocked, "3.0.0": policy.Rejected} {
		err := g.CheckFetch(t.Context(), vpc.At(version))
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", version, err)
			}
			continue
		}
		equal(t, version, refusalOf(t, err).Outcome, want)
	}
	equal(t, "asked again", refusalOf(t, g.Check(t.Context(), vpc.At("1.0.0"))).Outcome, policy.Unapproved)
}

// Groups whose names concatenate to the same text are different.
func TestGroupsAreApart(t *testing.T) {
	f := newFixture(rules(t, "allow group=admin "+all))
	as := func(groups ...string) policy.Outcome {
		verdict, err := f.Gate.Decide(modproxy.WithClient(t.Context(), modproxy.Client{Groups: groups}), vpc.At("1.0.0"))
		if err != nil {
			t.Fatal(err)
		}
		return verdict.Outcome
	}
	equal(t, "dev and admin", as("dev", "admin"), policy.Allowed)
	equal(t, "dev NUL admin", as("dev\x00admin"), policy.NotAllowed)
}

// Cancelled requests do not hide new decisions.
func TestCanceledQuestionsHideNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(rules(t, "allow "+all))
		equal(t, "before", outcome(t, f.Gate, "1.0.0"), policy.Allowed)
		f.book.decide(modproxy.Block, "")
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 60 {
			time.Sleep(1100 * time.Millisecond)
			f.Gate.Decide(gone, vpc.At("1.0.0"))
		}
		equal(t, "a minute after the block", outcome(t, f.Gate, "1.0.0"), policy.Blocked)
	})
}

// A verdict that waits for another read of decisions ends with its context.
func TestWaitEnds(t *testing.T) {
	l := &stuck{entered: make(chan bool, 9), release: make(chan bool)}
	g := policy.NewGate(l, nil)
	go g.Decide(t.Context(), vpc.At("1.0.0"))
	<-l.entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan bool)
	go func() {
		defer close(done)
		g.Decide(ctx, vpc.At("1.0.0"))
	}()
	select {
	case <-done:
	case <-time.After(time.Minute): // only if the test fails
		t.Error("a question that has ended waits for another one")
	}
	close(l.release)
	<-done
}

// stuck is a ledger that waits until it is released.
type stuck struct {
	book
	entered, release chan bool
}

func (s *stuck) Decisions(context.Context, int64) ([]modproxy.Decision, int64, error) {
	s.entered <- true
	<-s.release
	return nil, 0, nil
}
