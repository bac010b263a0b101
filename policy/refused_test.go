package policy_test

import (
	"errors"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/policy"
)

// Users read these texts.
func TestRefusal(t *testing.T) {
	deny := rule(t, 12, "deny "+host+"/acme/*/*")
	why := deny
	why.Reason = "it reads what it should not"
	some := rule(t, 7, "deny "+all+" >= 1.0, < 1.3")
	young := rule(t, 3, "allow age=168h "+all)
	younger, youngest := rule(t, 4, "allow age=24h "+all), rule(t, 5, "allow age=90m "+all)
	blocked := &modproxy.Decision{By: "alice", Time: time.Date(2026, 3, 14, 16, 9, 26, 0, time.FixedZone("CET", 3600)), Reason: "CVE-2026-1"}
	silent := &modproxy.Decision{By: "bob", Time: day}
	for _, test := range []struct {
		verdict policy.Verdict
		contact string
		want    string
	}{
		{policy.Verdict{Outcome: policy.Denied, Rule: &deny}, "",
			"a rule denies it (p:12 denies registry.example.com/acme/*/*); ask the operator of this proxy"},
		{policy.Verdict{Outcome: policy.Denied, Rule: &why}, "#platform",
			"it reads what it should not (p:12 denies registry.example.com/acme/*/*); ask #platform"},
		{policy.Verdict{Outcome: policy.Denied, Rule: &some}, "#platform",
			"a rule denies it (p:7 denies registry.example.com/acme/vpc/aws >= 1.0, < 1.3); ask #platform"},
		{policy.Verdict{Outcome: policy.NotAllowed}, "",
			"no rule allows it: ask the operator of this proxy to have it allowed"},
		{policy.Verdict{Outcome: policy.NotAllowed}, "#platform",
			"no rule allows it: ask #platform to have it allowed"},
		{policy.Verdict{Outcome: policy.TooYoung, Rule: &young, Until: time.Date(2026, 3, 21, 8, 0, 0, 0, time.UTC)}, "#platform",
			"a version may be used when it has been listed for 7 days (p:3): try again from 2026-03-21 08:00 UTC on, or choose an older version; ask #platform for an exemption"},
		{policy.Verdict{Outcome: policy.TooYoung, Rule: &younger}, "",
			"a version may be used when it has been listed for 1 day (p:4): try again once it is known to have been listed for that long, or choose an older version; ask the operator of this proxy for an exemption"},
		{policy.Verdict{Outcome: policy.TooYoung, Rule: &youngest}, "#platform",
			"a version may be used when it has been listed for 1h30m0s (p:5): try again once it is known to have been listed for that long, or choose an older version; ask #platform for an exemption"},
		{policy.Verdict{Outcome: policy.TooYoung, Rule: &young, Until: time.Date(2026, 3, 21, 8, 0, 0, 0, time.UTC), Pending: true}, "#platform",
			"its date of publication is being requested from the registry, and a version may be used when it has been listed for 7 days (p:3): try again in a minute; ask #platform for an exemption"},
		{policy.Verdict{Outcome: policy.Unapproved, Rule: &young}, "#platform",
			"it waits for approval (p:3): ask #platform to approve it"},
		{policy.Verdict{Outcome: policy.Rejected, Decision: blocked}, "#platform",
			"rejected on 2026-03-14 15:09 UTC by alice: CVE-2026-1; ask #platform"},
		{policy.Verdict{Outcome: policy.Blocked, Decision: blocked}, "#platform",
			"blocked on 2026-03-14 15:09 UTC by alice: CVE-2026-1; ask #platform"},
		{policy.Verdict{Outcome: policy.Blocked, Decision: silent}, "",
			"blocked on 2026-03-14 15:09 UTC by bob: no reason is given; ask the operator of this proxy"},
		{policy.Verdict{Outcome: policy.Reserved}, "#platform",
			"the namespace acme is reserved for a private registry, and this address is in another one: ask #platform"},
		{policy.Verdict{Outcome: policy.NotLocked, Rule: &young}, "#platform",
			"its content differs from the lock files (p:3): ask #platform"},
	} {
		var err error = &policy.Refusal{Verdict: test.verdict, Ref: vpc.At("1.2.0"), Contact: test.contact}
		equal(t, string(test.verdict.Outcome), err.Error(), "denied by the policy of this proxy: "+test.want)
		if !errors.Is(err, modproxy.ErrDenied) {
			t.Errorf("%v is not denied", err)
		}
	}
}

// In the minute that a refusal names, the version is old enough.
func TestUntilIsRoundedUp(t *testing.T) {
	until, young := day, rule(t, 1, "allow age=24h "+all) // at 15:09:26
	err := &policy.Refusal{Verdict: policy.Verdict{Outcome: policy.TooYoung, Rule: &young, Until: until}, Ref: vpc.At("1.0.0")}
	want := "denied by the policy of this proxy: a version may be used when it has been listed for 1 day (p:1): " +
		"try again from 2026-03-14 15:10 UTC on, or choose an older version; ask the operator of this proxy for an exemption"
	equal(t, "text", err.Error(), want)
}
