package policy_test

import (
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/policy"
)

// An allow or an approval covers the build that it names, because other builds may be published later. A deny covers
// all builds.
func TestBuilds(t *testing.T) {
	const approve, reject, block = modproxy.Approve, modproxy.Reject, modproxy.Block
	wait, open := rules(t, "allow approval "+all), compile(t, policy.Config{})
	for name, test := range map[string]struct {
		rules           *policy.Rules
		made            []made
		plain, x, other policy.Outcome // of 1.0.0, 1.0.0+x, and 1.0.0+other
	}{
		"approval":                     {wait, []made{{approve, "1.0.0"}}, policy.Allowed, policy.Unapproved, policy.Unapproved},
		"approval of a build":          {wait, []made{{approve, "1.0+x"}}, policy.Unapproved, policy.Allowed, policy.Unapproved},
		"approval of two builds":       {wait, []made{{approve, "1.0.0"}, {approve, "1.0.0+x"}}, policy.Allowed, policy.Allowed, policy.Unapproved},
		"approval of a range":          {wait, []made{{approve, "~> 1.0"}}, policy.Allowed, policy.Allowed, policy.Allowed},
		"approval of a build in terms": {wait, []made{{approve, "1.0.0+x, >= 0.9"}}, policy.Unapproved, policy.Allowed, policy.Unapproved},
		"rejection":                    {wait, []made{{approve, "1.0.0"}, {approve, "1.0.0+x"}, {reject, "1.0.0"}}, policy.Rejected, policy.Rejected, policy.Rejected},
		"rejection of a build":         {wait, []made{{approve, "1.0.0"}, {reject, "1.0.0+x"}}, policy.Rejected, policy.Rejected, policy.Rejected},
		"rejection, then approval":     {wait, []made{{reject, "1.0.0"}, {approve, "1.0.0"}}, policy.Allowed, policy.Rejected, policy.Rejected},
		"rejection in terms":           {wait, []made{{reject, "1.0.0, >= 0.9"}, {approve, "1.0.0, >= 0.9"}}, policy.Allowed, policy.Rejected, policy.Rejected},
		"block of a build":             {open, []made{{block, "1.0.0+x"}}, policy.Blocked, policy.Blocked, policy.Blocked},
		"block of all but one":         {open, []made{{block, "!= 1.0.0"}}, policy.Allowed, policy.Blocked, policy.Blocked},
		"block of all but a build":     {open, []made{{block, "!= 1.0.0+x"}}, policy.Blocked, policy.Allowed, policy.Blocked},
		"allow":                        {rules(t, "allow "+all+" 1.0.0"), nil, policy.Allowed, policy.NotAllowed, policy.NotAllowed},
		"allow of a build":             {rules(t, "allow "+all+" 1.0.0+x"), nil, policy.NotAllowed, policy.Allowed, policy.NotAllowed},
		"deny":                         {rules(t, "allow "+all, "deny "+all+" 1.0.0"), nil, policy.Denied, policy.Denied, policy.Denied},
		"deny of all but one":          {rules(t, "allow "+all, "deny "+all+" !=1.0.0"), nil, policy.Allowed, policy.Denied, policy.Denied},
		"no rule":                      {open, nil, policy.Allowed, policy.Allowed, policy.Allowed},
	} {
		g := gate(test.rules, test.made...)
		got := [...]policy.Outcome{outcome(t, g, "1.0.0"), outcome(t, g, "1.0.0+x"), outcome(t, g, "1.0.0+other")}
		if got != [...]policy.Outcome{test.plain, test.x, test.other} {
			t.Errorf("%s: 1.0.0, 1.0.0+x and 1.0.0+other are %v", name, got)
		}
		for i, version := range []string{"1.0.0", "1.0.0+x"} { // variants are judged as their base version
			if made := vpc.At(version).With(modproxy.ServedVariant, "x"); outcome(t, g, made.FullVersion()) != got[i] {
				t.Errorf("%s: %s is %s", name, made, outcome(t, g, made.FullVersion()))
			}
		}
	}
}

// A decision that a later one has replaced for some versions differs from a new decision with the same text.
func TestPlaceAmongBuilds(t *testing.T) {
	const approve, reject = modproxy.Approve, modproxy.Reject
	for _, test := range []struct {
		before []made
		made
		was, partly bool
	}{
		{[]made{{approve, "1.0.0"}}, made{approve, "1.0.0"}, true, false},
		{[]made{{approve, "1.0.0+x"}}, made{approve, "1.0.0"}, false, false},
		{[]made{{approve, "1.0.0"}, {approve, "1.0.0+x"}}, made{approve, "1.0.0"}, true, false},
		{[]made{{approve, "1.0.0"}, {reject, "1.0.0"}}, made{approve, "1.0.0"}, true, false}, // the rejection was in force
		{[]made{{reject, "1.0.0"}}, made{reject, "1.0.0+x"}, true, false},
		{[]made{{reject, "1.0.0"}, {approve, "1.0.0+x"}}, made{reject, "1.0.0"}, true, true},
		{[]made{{reject, "1.0.0"}, {approve, "1.1.0"}}, made{reject, "1.0.0"}, true, false},
		{[]made{{reject, "~> 1.0"}, {approve, "1.1.0"}}, made{reject, "~> 1.0"}, true, true},
	} {
		d := modproxy.Decision{Address: vpc, Action: test.action, Versions: test.versions}
		p, err := gate(rules(t, "allow approval "+all), test.before...).Place(t.Context(), d)
		if err != nil || (p.Was != nil) != test.was || p.Partly != test.partly {
			t.Errorf("%v after %v: was %v, partly %v, %v", test.made, test.before, p.Was, p.Partly, err)
		}
	}
}
