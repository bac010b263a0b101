package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/policy"
)

// made is a decision about vpc, as "action versions".
type made struct {
	action   modproxy.Action
	versions string
}

// gate returns a gate with rules, and a ledger with decisions.
func gate(r *policy.Rules, list ...made) *policy.Gate {
	b := &book{}
	for _, d := range list {
		b.decide(d.action, d.versions)
	}
	g := policy.NewGate(b, nil)
	g.Use(r)
	return g
}

// The last decision counts, among decisions about the same versions and about overlapping ones.
func TestDecisions(t *testing.T) {
	const (
		approve, reject = modproxy.Approve, modproxy.Reject
		block, unblock  = modproxy.Block, modproxy.Unblock
	)
	wait := rules(t, "allow approval "+all)
	free := rules(t, "allow "+all)
	for _, test := range []struct {
		name  string
		rules *policy.Rules
		made  []made
		want  string // outcomes of 1.0.0, 1.1.0 and the module
	}{
		{"none", wait, nil, "unapproved unapproved allowed"},
		{"one is approved", wait, []made{{approve, "1.0.0"}}, "allowed unapproved allowed"},
		{"all are approved", wait, []made{{approve, ""}}, "allowed allowed allowed"},
		{"a range is approved", wait, []made{{approve, ">= 1.1"}}, "unapproved allowed allowed"},
		{"rejected after approved", wait, []made{{approve, "1.0.0"}, {reject, "1.0.0"}}, "rejected unapproved allowed"},
		{"approved after rejected", wait, []made{{reject, "1.0.0"}, {approve, "1.0.0"}}, "allowed unapproved allowed"},
		{"one is approved of all rejected", wait, []made{{reject, ""}, {approve, "1.0.0"}}, "allowed rejected allowed"},
		{"all are rejected after one is approved", wait, []made{{approve, "1.0.0"}, {reject, ""}}, "rejected rejected allowed"},
		{"the last one of three", wait, []made{{reject, ""}, {approve, "1.0.0"}, {reject, ""}}, "rejected rejected allowed"},
		{"approval needs a rule", rules(t), []made{{approve, ""}}, "not_allowed not_allowed not_allowed"},
		{"approval does not undo a deny", rules(t, "allow "+all, "deny "+all), []made{{approve, ""}}, "denied denied denied"},
		{"rejected where everything is allowed", compile(t, policy.Config{}), []made{{reject, "1.0.0"}}, "rejected allowed allowed"},
		{"one is blocked", free, []made{{block, "1.0.0"}}, "blocked allowed allowed"},
		{"all are blocked", free, []made{{block, ""}}, "blocked blocked blocked"},
		{"a range is blocked", free, []made{{block, "> 1.0, < 2"}}, "allowed blocked allowed"},
		{"blocked where everything is allowed", compile(t, policy.Config{}), []made{{block, "1.0.0"}}, "blocked allowed allowed"},
		{"blocked before denied", rules(t, "deny "+all), []made{{block, ""}}, "blocked blocked blocked"},
		{"blocked before rejected", free, []made{{block, ""}, {reject, ""}}, "blocked blocked blocked"},
		{"approved after blocked", free, []made{{block, "1.0.0"}, {approve, "1.0.0"}}, "blocked allowed allowed"},
		{"unblocked", free, []made{{block, "1.0.0"}, {unblock, "1.0.0"}}, "allowed allowed allowed"},
		{"all are unblocked", free, []made{{block, ""}, {unblock, ""}}, "allowed allowed allowed"},
		{"unblocked are other versions", free, []made{{block, ""}, {unblock, "1.0.0"}}, "blocked blocked blocked"},
		{"one of two blocks ends", free, []made{{block, ""}, {block, "1.1.0"}, {unblock, ""}}, "allowed blocked allowed"},
		{"blocked again", free, []made{{block, ""}, {unblock, ""}, {block, ""}}, "blocked blocked blocked"},
		{"unblocked before", free, []made{{unblock, ""}, {block, ""}}, "blocked blocked blocked"},
		{"deprecated", free, []made{{modproxy.Deprecate, ""}}, "allowed allowed allowed"},
		{"deprecated is not approved", wait, []made{{modproxy.Deprecate, ""}}, "unapproved unapproved allowed"},
	} {
		g := gate(test.rules, test.made...)
		got := outcome(t, g, "1.0.0") + " " + outcome(t, g, "1.1.0") + " " + outcome(t, g, "")
		equal(t, test.name, string(got), test.want)
	}
}

// Decisions read one by one have the same effect as decisions read at once.
func TestDecisionsOneByOne(t *testing.T) {
	b := &book{}
	g := policy.NewGate(b, nil)
	g.Use(rules(t, "allow approval "+all))
	for i, step := range []struct {
		made
		want policy.Outcome
	}{
		{made{modproxy.Approve, "1.0.0"}, policy.Allowed},
		{made{modproxy.Block, ""}, policy.Blocked},
		{made{modproxy.Reject, "1.0.0"}, policy.Blocked},
		{made{modproxy.Unblock, ""}, policy.Rejected},
		{made{modproxy.Approve, ""}, policy.Allowed},
		{made{modproxy.Deprecate, ""}, policy.Allowed},
		{made{modproxy.Reject, "> 1"}, policy.Allowed},
	} {
		b.decide(step.action, step.versions)
		if err := g.Follow(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := outcome(t, g, "1.0.0"); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
}

// An approval ends at its exact instant. A rejection does not end.
func TestApprovalEnds(t *testing.T) {
	s := rules(t, "allow approval "+all).For(vpc, nil)
	for _, test := range []struct {
		action modproxy.Action
		until  time.Time
		want   policy.Outcome
	}{
		{modproxy.Approve, day.Add(1), policy.Allowed},
		{modproxy.Approve, day, policy.Unapproved},
		{modproxy.Approve, day.Add(-1), policy.Unapproved},
		{modproxy.Reject, day.Add(-1), policy.Rejected},
	} {
		d := &modproxy.Decision{Action: test.action, Until: test.until}
		got := s.Decide(version(t, "1.0.0"), policy.VersionFacts{}, policy.Decided{Review: d}, day)
		equal(t, string(test.action)+" until "+test.until.String(), got.Outcome, test.want)
	}
}

// The gate reads the clock for each verdict.
func TestApprovalEndsInGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{}
		b.add(modproxy.Decision{Address: vpc, Action: modproxy.Approve, Time: time.Now(), Until: time.Now().Add(time.Hour)})
		g := policy.NewGate(b, nil)
		g.Use(rules(t, "allow approval "+all))
		time.Sleep(time.Hour - 1)
		equal(t, "before", outcome(t, g, "1.0.0"), policy.Allowed)
		time.Sleep(time.Nanosecond)
		equal(t, "then", outcome(t, g, "1.0.0"), policy.Unapproved)
	})
}

// A decision covers its module in every spelling, and no other module.
func TestDecisionsAreAboutModules(t *testing.T) {
	b := &book{}
	odd := modproxy.Address{Host: host, Namespace: "ACME", Name: "Vpc", System: "aws"}
	b.add(modproxy.Decision{Address: odd, Action: modproxy.Block, Versions: "v1.0", Time: day})
	g := policy.NewGate(b, nil)
	near := vpc
	near.Name = "vpcs"
	for _, test := range []struct {
		module  modproxy.Address
		version string
		want    policy.Outcome
	}{
		{vpc, "1.0.0", policy.Blocked},
		{odd, "1.0.0+build", policy.Blocked},
		{vpc, "1.0.0-rc1", policy.Blocked},
		{vpc, "1.0.1", policy.Allowed},
		{near, "1.0.0", policy.Allowed},
	} {
		verdict, err := g.Decide(t.Context(), test.module.At(test.version))
		if err != nil || verdict.Outcome != test.want {
			t.Errorf("%s: %s, %v; want %s", test.module.At(test.version), verdict.Outcome, err, test.want)
		}
	}
}

// A decision is in force until it ends, or until a decision about the same versions, in any spelling, replaces it.
func TestStanding(t *testing.T) {
	upper := vpc
	upper.Namespace = strings.ToUpper(vpc.Namespace)
	var list []modproxy.Decision
	var want []bool
	for _, test := range []struct {
		modproxy.Decision
		stands bool
	}{
		{modproxy.Decision{Address: vpc, Action: modproxy.Block, Versions: "1.0.0"}, false}, // unblocked
		{modproxy.Decision{Address: vpc, Action: modproxy.Block, Versions: "< 2"}, true},
		{modproxy.Decision{Address: vpc, Action: modproxy.Reject, Versions: "1.0.0"}, true},     // for other builds than the approved one
		{modproxy.Decision{Address: vpc, Action: modproxy.Unblock, Versions: "v1.0+x"}, false},  // only ends another
		{modproxy.Decision{Address: vpc, Action: modproxy.Approve, Versions: "4.0.0"}, false},   // rejected, with all builds
		{modproxy.Decision{Address: vpc, Action: modproxy.Approve, Versions: "4.0.0+x"}, false}, // rejected
		{modproxy.Decision{Address: vpc, Action: modproxy.Reject, Versions: "4.0.0+y"}, true},
		{modproxy.Decision{Address: vpc, Action: modproxy.Approve, Versions: "4.0.0+z"}, true},
		{modproxy.Decision{Address: vpc, Action: modproxy.Approve, Versions: "3.0.0", Until: day}, false},
		{modproxy.Decision{Address: vpc, Action: modproxy.Approve, Versions: "3.1.0", Until: day.Add(1)}, true},
		{modproxy.Decision{Address: vpc, Action: modproxy.Deprecate, Reason: "old"}, false},
		{modproxy.Decision{Address: vpc, Action: modproxy.Deprecate}, false}, // only ends another
		{modproxy.Decision{Address: vpc, Action: modproxy.Deprecate, Versions: "< 2.0", Reason: "old"}, true},
		{modproxy.Decision{Address: upper, Action: modproxy.Approve, Versions: "1.0.0.0"}, true},
	} {
		list, want = append(list, test.Decision), append(want, test.stands)
	}
	if got := policy.InForce(list, day); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The approval of a version does not cover its pre-releases, which anybody may publish later.
func TestApprovalOfPrereleases(t *testing.T) {
	g := gate(rules(t, "allow approval "+all), made{modproxy.Approve, "1.2.3"})
	equal(t, "1.2.3", outcome(t, g, "1.2.3"), policy.Allowed)
	equal(t, "1.2.3-rc1", outcome(t, g, "1.2.3-rc1"), policy.Unapproved)
}

// An unblock ends a block of the same versions in another spelling.
func TestUnblockBySpelling(t *testing.T) {
	g := gate(rules(t, "allow "+all), made{modproxy.Block, ">= 1.0.0"}, made{modproxy.Unblock, ">=1.0.0"})
	equal(t, "unblocked", outcome(t, g, "1.0.0"), policy.Allowed)
	g = gate(rules(t, "allow "+all), made{modproxy.Block, "1.0"}, made{modproxy.Unblock, "1.0.0"})
	equal(t, "unblocked", outcome(t, g, "1.0.0"), policy.Allowed)
}

// A module and its versions are refused for the same reason.
func TestReservedAndBlocked(t *testing.T) {
	g := gate(compile(t, policy.Config{Reserved: []policy.Reserve{{Namespace: "acme"}}}), made{modproxy.Block, ""})
	equal(t, "reserved and blocked", outcome(t, g, ""), outcome(t, g, "1.0.0"))
}

// For each version, the last decisions count that no later decision about the same versions has replaced. Versions are
// the same if Compare says so; an approval is about one build.
func TestDecisionsProperty(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	versions := []string{"", "1.0.0", "v1.0", "1.0.0.0+x", "1.0.0-1", "1.0.0-01+y", "1.0.0-rc1", "1.1.0", "0", "< 2", "<2.0.0", ">= 1.0, < 2", "~> 1.0", "!= 1.0.0"}
	actions := []modproxy.Action{modproxy.Approve, modproxy.Reject, modproxy.Block, modproxy.Unblock, modproxy.Deprecate}
	kinds := map[modproxy.Action]int{modproxy.Reject: 1, modproxy.Approve: 1, modproxy.Deprecate: 2}
	parse := func(s string) (c modproxy.Constraint) {
		if s != "" {
			c, _ = modproxy.ParseConstraint(s)
		}
		return c
	}
	same := func(a, b modproxy.Decision) bool {
		v, errA := modproxy.ParseVersion(a.Versions)
		w, errB := modproxy.ParseVersion(b.Versions)
		if errA == nil && errB == nil {
			build := b.Action == modproxy.Approve // an approval replaces an earlier approval of that build only
			return v.Compare(w) == 0 && (!build || a.Action == modproxy.Approve && v.Build() == w.Build())
		}
		return parse(a.Versions).Canonical() == parse(b.Versions).Canonical()
	}
	for range 2000 {
		b := &book{}
		var left []modproxy.Decision
		for i := range r.IntN(12) {
			d := modproxy.Decision{Address: vpc, Action: actions[r.IntN(len(actions))], Versions: versions[r.IntN(len(versions))], Link: fmt.Sprint(i)}
			if r.IntN(3) > 0 {
				d.Reason = "a reason"
			}
			b.add(d)
			left = slices.DeleteFunc(left, func(was modproxy.Decision) bool { return kinds[was.Action] == kinds[d.Action] && same(was, d) })
			if !policy.Ends(d) {
				left = append(left, d)
			}
		}
		for _, text := range []string{"1.0.0", "1.0.0-1", "1.0.0-01", "1.0.0-01+y", "1.0.0+x", "1.0.0+y", "1.0.0-rc1", "1.1.0", "0.0.0", "3.0.0-rc1"} {
			v := version(t, text)
			got, err := policy.NewGate(b, nil).Decisions(t.Context(), vpc.At(text))
			var want [3]string
			for _, d := range left {
				if c := parse(d.Versions); d.Action == modproxy.Approve && c.Allows(v) || d.Action != modproxy.Approve && c.Covers(v) {
					want[kinds[d.Action]] = d.Link
				}
			}
			for kind, d := range []*modproxy.Decision{got.Block, got.Review, got.Deprecation} {
				if err != nil || (d == nil) != (want[kind] == "") || d != nil && d.Link != want[kind] {
					t.Fatalf("%s: %+v, %v; want %s of %+v", text, d, err, want[kind], b.list)
				}
			}
		}
	}
}

// Remarks name missing effects of a decision, and the decisions that it ends.
func TestRemarks(t *testing.T) {
	wait := "allow approval " + all
	audit := compile(t, policy.Config{DefaultDeny: true, Audit: true, Rules: []policy.Rule{rule(t, 1, wait)}})
	const (
		approve, reject, block = modproxy.Approve, modproxy.Reject, modproxy.Block
		unblock, deprecate     = modproxy.Unblock, modproxy.Deprecate
	)
	for _, test := range []struct {
		name  string
		rules *policy.Rules
		made  []made
		now   made
		want  []string // parts of the remarks
	}{
		{"fine", rules(t, wait), nil, made{approve, "1.0.0"}, nil},
		{"of what waits for its age", rules(t, "allow age=24h "+all), nil, made{approve, "1.0.0"}, nil},
		{"for some", rules(t, "allow approval group=dev "+all), nil, made{approve, "1.0.0"}, nil},
		{"no rules", compile(t, policy.Config{}), nil, made{approve, "1.0.0"}, []string{"no difference: policy.default is allow"}},
		{"no rule", rules(t, "allow approval "+host+"/acme/vpn/aws"), nil, made{approve, ""}, []string{"no rule allows it"}},
		{"no rule for the version", rules(t, wait+" >= 2"), nil, made{approve, "1.0.0"}, []string{"no rule allows it"}},
		{"no rule wants it", rules(t, "allow "+all), nil, made{approve, "1.0.0"}, []string{"no rule that allows it requires an approval"}},
		{"denied", rules(t, wait, "deny "+all+" < 2"), nil, made{approve, "1.0.0"}, []string{"stays refused: p:2 denies "}},
		{"denied for some", rules(t, wait, "deny group=dev "+all), nil, made{approve, "1.0.0"}, nil},
		{"blocked", rules(t, wait), []made{{block, "< 2"}}, made{approve, "1.0.0"}, []string{"stays refused: block of < 2 by eve on "}},
		{"others are blocked", rules(t, wait), []made{{block, "> 2"}}, made{approve, "1.0.0"}, nil},
		{"rejected", rules(t, wait), []made{{reject, "1.0.0"}}, made{approve, "1.0.0"}, []string{"no longer counts: reject of 1.0.0 by eve on "}},
		{"rejected with others", rules(t, wait), []made{{reject, ""}}, made{approve, "1.0.0"}, []string{"no longer counts: reject of every version by eve on "}},
		{"approved", rules(t, wait), []made{{approve, "1.0.0"}}, made{reject, "1.0.0"}, []string{"no longer counts: approve of 1.0.0"}},
		{"approved again", rules(t, wait), []made{{approve, "1.0.0"}}, made{approve, "1.0.0"}, nil},
		{"reserved", compile(t, policy.Config{DefaultDeny: true, Rules: []policy.Rule{rule(t, 1, wait)}, Reserved: []policy.Reserve{{Namespace: "acme"}}}),
			nil, made{approve, "1.0.0"}, []string{"the namespace acme is reserved"}},
		{"audit", audit, nil, made{block, ""}, []string{"policy.mode is audit"}},
		{"audit", audit, nil, made{reject, "1.0.0"}, []string{"policy.mode is audit"}},
		{"audit", audit, nil, made{approve, "1.0.0"}, nil},
		{"blocked twice", rules(t, wait), []made{{block, ""}, {block, "1.0.0"}}, made{unblock, "1.0.0"}, []string{"stays in force: block of every version"}},
		{"the other way round", rules(t, wait), []made{{block, ""}, {block, "1.0.0"}}, made{unblock, ""}, nil},
		{"deprecated twice", rules(t, wait), []made{{deprecate, ""}, {deprecate, "1.0.0"}}, made{deprecate, "1.0.0"}, []string{"stays in force: deprecate of every version"}},
	} {
		d := modproxy.Decision{Address: vpc, Action: test.now.action, Versions: test.now.versions}
		got, err := gate(test.rules, test.made...).Remarks(t.Context(), d)
		if err != nil || len(got) != len(test.want) {
			t.Errorf("%s: %q, %v; want %q", test.name, got, err, test.want)
			continue
		}
		for i, want := range test.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: %q, want %s", test.name, got[i], want)
			}
		}
	}
}
