package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/policy"
)

// Every test of this file FAILS as the package is. When what it is about is mended, or found to be meant, it moves to the
// file of its subject, or goes.

// A version that was published after the module was last listed has no sight. It
// is taken for one that was there when the module was met, and so for one that is old.
func TestUnlistedVersionIsOld(t *testing.T) {
	for _, first := range []bool{false, true} {
		f := newFixture(compile(t, policy.Config{DefaultDeny: true, FirstAllow: first, Rules: []policy.Rule{rule(t, 1, "allow age=24h "+all)}}))
		f.Gate.Sights = sights{vpc: {Met: time.Now().Add(-48 * time.Hour), Versions: map[string]modproxy.VersionSight{"1.0.0": {}}}}
		equal(t, fmt.Sprintf("first contact allows: %v; never listed", first), outcome(t, f.Gate, "6.6.6"), policy.TooYoung)
	}
}

// A version without a sight of its own is old by the time of its module, until its first download
// makes a record: from then on the time of the record counts, and it is too young again.
func TestDownloadMakesYoung(t *testing.T) {
	for _, first := range []bool{false, true} {
		f := newFixture(compile(t, policy.Config{DefaultDeny: true, FirstAllow: first, Rules: []policy.Rule{rule(t, 1, "allow age=24h "+all)}}))
		f.Gate.Sights = sights{vpc: {Met: time.Now().Add(-48 * time.Hour), Versions: map[string]modproxy.VersionSight{"1.0.0": {}}}}
		equal(t, "before its first download", outcome(t, f.Gate, "1.0.0"), policy.Allowed)
		f.book.record(vpc.At("1.0.0"), right)
		equal(t, "after its first download", outcome(t, f.Gate, "1.0.0"), policy.Allowed)
	}
}

// Approvals cover what denials do: the approval of 1.2.3 is one of every pre-release of it,
// which anybody may publish later.
func TestApprovalOfPrereleases(t *testing.T) {
	g := gate(rules(t, "allow approval "+all), made{modproxy.Approve, "1.2.3"})
	equal(t, "1.2.3", outcome(t, g, "1.2.3"), policy.Allowed)
	equal(t, "1.2.3-rc1", outcome(t, g, "1.2.3-rc1"), policy.Unapproved)
}

// The ledger is read in the context of whoever comes first, and nobody else reads it for a second
// when that fails: clients that go away keep a block from being seen.
func TestCanceledQuestionsHideDecisions(t *testing.T) {
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

// A question waits for the read of another one, whatever its own context says, and so do
// Use and all that come at the start, one after the other.
func TestWaitWithoutContext(t *testing.T) {
	l := &stuck{entered: make(chan bool, 9), release: make(chan bool)}
	g := &policy.Gate{Ledger: l}
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
	case <-time.After(time.Second): // when it fails
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

// The age is asked for by the spelling of the client: a module that was met long ago is met for the
// first time in capitals, where first contact allows everything.
func TestAgeBySpelling(t *testing.T) {
	f := newFixture(compile(t, policy.Config{DefaultDeny: true, FirstAllow: true, Rules: []policy.Rule{rule(t, 1, "allow age=24h "+all)}}))
	loud, now := vpc, time.Now()
	loud.Namespace = "ACME"
	f.Gate.Sights = sights{vpc: {Met: now.Add(-48 * time.Hour), Versions: map[string]modproxy.VersionSight{"2.0.0": {Seen: now}}}}
	equal(t, "acme", outcome(t, f.Gate, "2.0.0"), policy.TooYoung)
	verdict, err := f.Gate.Decide(t.Context(), loud.At("2.0.0"))
	if err != nil || verdict.Outcome != policy.TooYoung {
		t.Errorf("ACME: %s, %v", verdict.Outcome, err)
	}
}

// The age of build metadata is its own: 2.0.0+x, which nobody has listed, is as old as its module.
func TestAgeByMetadata(t *testing.T) {
	f := newFixture(rules(t, "allow age=24h "+all))
	now := time.Now()
	f.Gate.Sights = sights{vpc: {Met: now.Add(-48 * time.Hour), Versions: map[string]modproxy.VersionSight{"2.0.0": {Seen: now}}}}
	equal(t, "2.0.0", outcome(t, f.Gate, "2.0.0"), policy.TooYoung)
	equal(t, "2.0.0+x", outcome(t, f.Gate, "2.0.0+x"), policy.TooYoung)
}

// In audit mode what is not known refuses.
func TestAuditRefusesWhenFactsFail(t *testing.T) {
	f := newFixture(compile(t, policy.Config{DefaultDeny: true, Audit: true, Rules: []policy.Rule{rule(t, 1, "allow age=24h "+all)}}))
	f.Gate.Sights = sightsFail{}
	if _, err := f.Versions(t.Context(), vpc); err != nil {
		t.Error(err)
	}
	if _, err := f.Location(t.Context(), vpc.At("1.0.0")); err != nil {
		t.Error(err)
	}
}

// In audit mode a module that is refused as a whole is two events for one question.
func TestAuditObservesTwice(t *testing.T) {
	f := newFixture(compile(t, policy.Config{Audit: true, Rules: []policy.Rule{rule(t, 1, "deny "+all)}}))
	f.versions(t.Context())
	equal(t, "events", len(f.events), 1)
}

// The content of a locked package is that of the ledger, not that of the package which is
// served: without a record it is not compared at all.
func TestLockedPackageWithoutRecord(t *testing.T) {
	lock := policy.Rule{Place: "lock", Locked: []policy.Locked{{vpc.At("1.0.0"), right}}}
	f := newFixture(compile(t, policy.Config{DefaultDeny: true, Rules: []policy.Rule{lock}}))
	f.next.sum = other
	if _, err := f.Package(t.Context(), vpc.At("1.0.0")); err == nil {
		t.Error("a locked package with another sum is served")
	}
}

// The groups of a client are one string: one group with a zero byte is two others.
func TestGroupsCollide(t *testing.T) {
	f := newFixture(rules(t, "allow group=admin "+all))
	as := func(groups ...string) policy.Outcome {
		verdict, err := f.Gate.Decide(modproxy.WithAsker(t.Context(), modproxy.Asker{Groups: groups}), vpc.At("1.0.0"))
		if err != nil {
			t.Fatal(err)
		}
		return verdict.Outcome
	}
	equal(t, "dev and admin", as("dev", "admin"), policy.Allowed)
	equal(t, "dev NUL admin", as("dev\x00admin"), policy.NotAllowed)
}

// Letters whose lower case is in ASCII are taken for ASCII.
func TestLookalikesInPatterns(t *testing.T) {
	for _, s := range []string{host + "/\u212aorp/vpc/aws", host + "/acme/v\u0130m/aws", "*.\u212a.com/acme/vpc/aws"} {
		if _, err := policy.ParsePattern(s); err == nil {
			t.Errorf("%+q is a pattern", s)
		}
	}
	if _, err := policy.Compile(policy.Config{Reserved: []policy.Reserve{{Namespace: "\u212aorp"}}}); err == nil {
		t.Error("KELVIN SIGN is reserved")
	}
}

// A host with a star and the port 443 stands for no host: such a deny denies nothing.
func TestPort443WithStar(t *testing.T) {
	if p, err := policy.ParsePattern("*.example.com:443/acme/vpc/aws"); err == nil && !p.Match(vpc) {
		t.Errorf("%s is taken and does not match %s", p, vpc)
	}
}

// A reserved namespace knows its host in one spelling only.
func TestReservedHostCase(t *testing.T) {
	r := compile(t, policy.Config{Reserved: []policy.Reserve{{Namespace: "acme", Hosts: []string{host}}}})
	loud := vpc
	loud.Host = "REGISTRY.example.com"
	equal(t, "in capitals", r.For(loud, nil).Module().Outcome, r.For(vpc, nil).Module().Outcome)
}

// An unblock in another spelling of the same versions ends nothing.
func TestUnblockBySpelling(t *testing.T) {
	g := gate(rules(t, "allow "+all), made{modproxy.Block, ">= 1.0.0"}, made{modproxy.Unblock, ">=1.0.0"})
	equal(t, "unblocked", outcome(t, g, "1.0.0"), policy.Allowed)
	g = gate(rules(t, "allow "+all), made{modproxy.Block, "1.0"}, made{modproxy.Unblock, "1.0.0"})
	equal(t, "unblocked", outcome(t, g, "1.0.0"), policy.Allowed)
}

// A module and its versions are refused for different reasons.
func TestModuleAndVersionsDiffer(t *testing.T) {
	g := gate(compile(t, policy.Config{Reserved: []policy.Reserve{{Namespace: "acme"}}}), made{modproxy.Block, ""})
	equal(t, "reserved and blocked", outcome(t, g, ""), outcome(t, g, "1.0.0"))
}

// At the instant at which a version is old enough the list is still that of before.
func TestListEndsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(rules(t, "allow age=24h "+all))
		now := time.Now()
		f.Gate.Sights = sights{vpc: {Met: now.Add(-48 * time.Hour), Versions: map[string]modproxy.VersionSight{
			"1.0.0": {}, "1.1.0": {}, "2.0.0": {Seen: now.Add(-24*time.Hour + 3*time.Second)}}}}
		f.versions(t.Context())
		time.Sleep(3 * time.Second)
		equal(t, "verdict", outcome(t, f.Gate, "2.0.0"), policy.Allowed)
		equal(t, "listed", f.versions(t.Context()), "1.0.0 1.1.0 2.0.0")
	})
}

// When an approval ends nothing looks: the version is listed for ten seconds, and its
// package is read to its end.
func TestApprovalEndsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(rules(t, "allow approval "+all))
		f.book.add(modproxy.Decision{Module: vpc, Action: modproxy.Approve, Time: day, Until: time.Now().Add(2 * time.Second)})
		equal(t, "approved", f.versions(t.Context()), "1.0.0 1.1.0 2.0.0")
		p, err := f.Package(t.Context(), vpc.At("1.0.0"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		equal(t, "verdict", outcome(t, f.Gate, "1.0.0"), policy.Unapproved)
		if v, err := f.Versions(t.Context(), vpc); err == nil {
			t.Errorf("%s is listed", spellings(v))
		}
		if _, err := io.ReadAll(p); err == nil {
			t.Error("the package is read to its end")
		}
	})
}

// The time that users are told is cut to the minute: then it is still refused.
func TestUntilIsRoundedDown(t *testing.T) {
	until, young := day, rule(t, 1, "allow age=24h "+all) // at 15:09:26
	err := &policy.Refusal{Verdict: policy.Verdict{Outcome: policy.TooYoung, Rule: &young, Until: until}, ModuleVersion: vpc.At("1.0.0")}
	want := "refused by the policy of this proxy: a version may be used when it has been listed for 1 day (p:1): " +
		"try again from 2026-03-14 15:10 UTC on, or choose an older version; ask whoever runs this proxy for an exemption"
	equal(t, "text", err.Error(), want)
}

// Another allow refuses: what a rule without a condition allows is an error when the age that
// another rule wants cannot be read.
func TestAnotherAllowFails(t *testing.T) {
	f := newFixture(rules(t, "allow "+all, "allow age=24h "+all))
	f.Gate.Sights = sightsFail{}
	if _, err := f.Gate.Decide(t.Context(), vpc.At("1.0.0")); err != nil {
		t.Error(err)
	}
}

// The clients read field names without regard to case, and the last one counts. A
// registry that lists its versions once more as "Modules" shows them through every filter.
func TestHiddenVersionsInAnotherField(t *testing.T) {
	v, err := modproxy.ParseVersions([]byte(`{"modules":[{"versions":[{"version":"1.0.0"},{"version":"2.0.0"}]}],` +
		`"Modules":[{"versions":[{"version":"2.0.0"}]}]}`))
	if err != nil {
		return // refused is good, too
	}
	some, err := v.Only(func(l modproxy.Listed) bool { return l.Spelling != "2.0.0" })
	if err != nil {
		t.Fatal(err)
	}
	var client struct {
		Modules []struct {
			Versions []struct{ Version string }
		}
	}
	if err := json.Unmarshal(some.Document, &client); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(client.Modules[0].Versions, struct{ Version string }{"2.0.0"}) {
		t.Errorf("clients read 2.0.0 in %s", some.Document)
	}
}
