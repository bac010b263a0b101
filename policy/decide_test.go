package policy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/policy"
)

const (
	all   = host + "/acme/vpc/aws"
	right = modproxy.Sum("h1:right")
	other = modproxy.Sum("h1:other")
)

// Without a rule the default decides. A rule applies to the modules, versions and clients that it names.
func TestDecideByRules(t *testing.T) {
	open := policy.Config{}
	for _, test := range []struct {
		name   string
		rules  *policy.Rules
		groups []string
		want   policy.Outcome // of 1.2.0
	}{
		{"nothing", compile(t, open), nil, policy.Allowed},
		{"default deny", rules(t), nil, policy.NotAllowed},
		{"deny by default allow", compile(t, policy.Config{Rules: []policy.Rule{rule(t, 1, "deny "+all)}}), nil, policy.Denied},
		{"deny of another by default allow", compile(t, policy.Config{Rules: []policy.Rule{rule(t, 1, "deny "+host+"/acme/vpn/aws")}}), nil, policy.Allowed},
		{"allow", rules(t, "allow "+all), nil, policy.Allowed},
		{"allow in capitals", rules(t, "allow REGISTRY.example.com:443/ACME/Vpc/AWS"), nil, policy.Allowed},
		{"allow of another", rules(t, "allow "+host+"/acme/vpn/aws"), nil, policy.NotAllowed},
		{"allow and deny", rules(t, "allow "+all, "deny "+host+"/acme/*/*"), nil, policy.Denied},
		{"allow of versions", rules(t, "allow "+all+" >= 1.2"), nil, policy.Allowed},
		{"allow of other versions", rules(t, "allow "+all+" > 1.2"), nil, policy.NotAllowed},
		{"deny of versions", rules(t, "allow "+all, "deny "+all+" 1.2"), nil, policy.Denied},
		{"deny of other versions", rules(t, "allow "+all, "deny "+all+" != 1.2.0"), nil, policy.Allowed},
		{"one of two allows", rules(t, "allow "+all+" < 1", "allow "+all+" > 1"), nil, policy.Allowed},
		{"allow of a group", rules(t, "allow group=dev "+all), []string{"ops", "dev"}, policy.Allowed},
		{"allow of another group", rules(t, "allow group=dev "+all), []string{"ops"}, policy.NotAllowed},
		{"allow of a group, nobody", rules(t, "allow group=dev "+all), nil, policy.NotAllowed},
		{"groups have case", rules(t, "allow group=dev "+all), []string{"Dev"}, policy.NotAllowed},
		{"deny of a group", rules(t, "allow "+all, "deny group=dev "+all), []string{"dev"}, policy.Denied},
		{"deny of another group", rules(t, "allow "+all, "deny group=dev "+all), []string{"ops"}, policy.Allowed},
		{"one of two groups", rules(t, "allow group=a group=b "+all), []string{"b"}, policy.Allowed},
		{"unapproved", rules(t, "allow approval "+all), nil, policy.Unapproved},
		{"one allow has no condition", rules(t, "allow approval "+all, "allow age=24h "+all, "allow "+all), nil, policy.Allowed},
		{"reserved", compile(t, policy.Config{Reserved: []policy.Reserve{{Namespace: "AC*", Hosts: []string{"corp.example.com"}}}}), nil, policy.Reserved},
		{"reserved for nobody", compile(t, policy.Config{Reserved: []policy.Reserve{{Namespace: "acme"}}}), nil, policy.Reserved},
		{"reserved for this host", compile(t, policy.Config{Reserved: []policy.Reserve{{Namespace: "acme", Hosts: []string{host}}}}), nil, policy.Allowed},
		{"reserved for two, each another", compile(t, policy.Config{Reserved: []policy.Reserve{{Namespace: "acme", Hosts: []string{host}}, {Namespace: "*", Hosts: []string{"corp.example.com"}}}}), nil, policy.Reserved},
		{"another is reserved", compile(t, policy.Config{Reserved: []policy.Reserve{{Namespace: "acm"}, {Namespace: "acmee"}, {Namespace: "*-acme"}}}), nil, policy.Allowed},
	} {
		s := test.rules.For(vpc, test.groups)
		got := s.Decide(version(t, "1.2.0"), policy.VersionFacts{}, policy.Decided{}, day)
		equal(t, test.name, got.Outcome, test.want)
		if s.Module().Refused() && !got.Refused() {
			t.Errorf("%s: the module is %s and a version allowed", test.name, s.Module().Outcome)
		}
	}
}

// A constraint that denies covers the pre-releases at its bounds. A constraint that allows does not.
func TestDecidePrerelease(t *testing.T) {
	for _, test := range []struct {
		rules *policy.Rules
		want  policy.Outcome // of 2.0.0-rc1
	}{
		{rules(t, "allow "+all), policy.Allowed},
		{rules(t, "allow "+all+" >= 1.0"), policy.NotAllowed},
		{rules(t, "allow "+all+" 2.0.0-rc1"), policy.Allowed},
		{rules(t, "allow "+all, "deny "+all+" ~> 2.0"), policy.Denied},
		{rules(t, "allow "+all, "deny "+all+" < 2.0"), policy.Denied},
		{rules(t, "allow "+all, "deny "+all+" > 2.0"), policy.Allowed},
	} {
		got := test.rules.For(vpc, nil).Decide(version(t, "2.0.0-rc1"), policy.VersionFacts{}, policy.Decided{}, day)
		equal(t, "2.0.0-rc1", got.Outcome, test.want)
	}
}

// A version is old enough from the exact instant of its minimum age.
func TestDecideMinAge(t *testing.T) {
	const age, tick = 24 * time.Hour, time.Nanosecond
	ago := func(d time.Duration) time.Time { return day.Add(-d) }
	for _, test := range []struct {
		name       string
		facts      policy.VersionFacts
		firstAllow bool
		want       policy.Outcome
		until      time.Time
	}{
		{"old", policy.VersionFacts{Since: ago(age)}, false, policy.Allowed, time.Time{}},
		{"too young by a tick", policy.VersionFacts{Since: ago(age - tick)}, false, policy.TooYoung, day.Add(tick)},
		{"just listed", policy.VersionFacts{Since: day}, false, policy.TooYoung, day.Add(age)},
		{"from the future", policy.VersionFacts{Since: day.Add(age)}, false, policy.TooYoung, day.Add(2 * age)},
		{"young in an old module", policy.VersionFacts{Since: day, ModuleSeen: ago(9 * age)}, true, policy.TooYoung, day.Add(age)},
		{"nothing is known", policy.VersionFacts{}, false, policy.TooYoung, time.Time{}},
		{"nothing is known, first contact allows", policy.VersionFacts{}, true, policy.TooYoung, time.Time{}},
		{"there when the module was first seen", policy.VersionFacts{ModuleSeen: day}, false, policy.TooYoung, day.Add(age)},
		{"there when the module was first seen, first contact allows", policy.VersionFacts{ModuleSeen: day}, true, policy.Allowed, time.Time{}},
		{"first seen long ago", policy.VersionFacts{ModuleSeen: ago(age)}, false, policy.Allowed, time.Time{}},
		{"first seen not so long ago", policy.VersionFacts{ModuleSeen: ago(age - tick)}, false, policy.TooYoung, day.Add(tick)},
	} {
		r := compile(t, policy.Config{DefaultDeny: true, FirstAllow: test.firstAllow, Rules: []policy.Rule{rule(t, 1, "allow age=24h "+all)}})
		s := r.For(vpc, nil)
		got := s.Decide(version(t, "1.0.0"), test.facts, policy.Decided{}, day)
		if got.Outcome != test.want || !got.Until.Equal(test.until) {
			t.Errorf("%s: %s until %v, want %s until %v", test.name, got.Outcome, got.Until, test.want, test.until)
		}
		approved := s.Decide(version(t, "1.0.0"), test.facts, policy.Decided{Review: &modproxy.Decision{Action: modproxy.Approve}}, day)
		equal(t, test.name+", approved", approved.Outcome, policy.Allowed)
	}
}

// The date of the registry counts, unless it is later than the first-seen time.
func TestSince(t *testing.T) {
	moduleSeen, seen := day, day.Add(time.Hour)
	for _, test := range []struct {
		name       string
		dates      modproxy.VersionDates
		moduleSeen time.Time
		want       time.Time
	}{
		{"nothing", modproxy.VersionDates{}, moduleSeen, time.Time{}},
		{"seen", modproxy.VersionDates{Seen: seen}, moduleSeen, seen},
		{"published before it was seen", modproxy.VersionDates{Seen: seen, Published: moduleSeen}, moduleSeen, moduleSeen},
		{"published after it was seen", modproxy.VersionDates{Seen: seen, Published: seen.Add(1)}, moduleSeen, seen},
		{"published when it was seen", modproxy.VersionDates{Seen: seen, Published: seen}, moduleSeen, seen},
		{"published before the module was first seen", modproxy.VersionDates{Published: moduleSeen.Add(-1)}, moduleSeen, moduleSeen.Add(-1)},
		{"published after the module was first seen", modproxy.VersionDates{Published: seen}, moduleSeen, moduleSeen},
		{"published, not seen", modproxy.VersionDates{Published: seen}, time.Time{}, time.Time{}},
	} {
		firstSeen := modproxy.FirstSeen{Module: test.moduleSeen, Versions: map[string]modproxy.VersionDates{"1.0.0": test.dates}}
		if got := firstSeen.Since("1.0.0"); !got.Equal(test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// If several rules refuse a version, the verdict names the one that is nearest to allowing it, in any order of the
// rules.
func TestDecideNearest(t *testing.T) {
	facts := policy.VersionFacts{Since: day}
	locked := policy.Rule{Place: "lock", Locked: []policy.Locked{{vpc.At("1.0.0"), right}}}
	facts.Sum = other
	young, younger, approval := rule(t, 1, "allow age=24h "+all), rule(t, 2, "allow age=48h "+all), rule(t, 3, "allow approval "+all)
	for _, test := range []struct {
		rules []policy.Rule
		want  policy.Outcome
		place string
	}{
		{[]policy.Rule{young, younger}, policy.TooYoung, "p:1"},
		{[]policy.Rule{approval, younger}, policy.TooYoung, "p:2"},
		{[]policy.Rule{approval, locked}, policy.Unapproved, "p:3"},
		{[]policy.Rule{locked}, policy.NotLocked, "lock"},
		{[]policy.Rule{rule(t, 4, "allow "+all+" > 9"), locked}, policy.NotLocked, "lock"},
		{[]policy.Rule{rule(t, 5, "allow age=24h approval "+all)}, policy.TooYoung, "p:5"},
		{[]policy.Rule{rule(t, 5, "allow age=24h approval "+all), younger}, policy.TooYoung, "p:2"}, // p:5 would still lack approval after the wait
	} {
		for range 2 {
			r := compile(t, policy.Config{DefaultDeny: true, Rules: test.rules})
			got := r.For(vpc, nil).Decide(version(t, "1.0.0"), facts, policy.Decided{}, day)
			if got.Outcome != test.want || got.Rule == nil || got.Rule.Place != test.place {
				t.Errorf("%v: %+v, want %s by %s", test.rules, got, test.want, test.place)
			}
			for i, j := 0, len(test.rules)-1; i < j; i, j = i+1, j-1 {
				test.rules[i], test.rules[j] = test.rules[j], test.rules[i]
			}
		}
	}
}

// A version in a lock file is allowed with the listed content, for the clients of the rule.
func TestDecideLocked(t *testing.T) {
	locked := policy.Rule{Place: "lock", Groups: []string{"ci"}, Locked: []policy.Locked{{vpc.At("1.0.0"), right}, {vpc.At("1.1.0+build"), right}}}
	second := policy.Rule{Place: "lock2", Locked: []policy.Locked{{vpc.At("1.2.0"), right}, {vpc.At("1.2.0"), other}}}
	empty := policy.Rule{Place: "lock3", Locked: []policy.Locked{}}
	r := compile(t, policy.Config{DefaultDeny: true, Rules: []policy.Rule{locked, second, empty}})
	ci := []string{"ci"}
	for _, test := range []struct {
		version string
		sum     modproxy.Sum
		groups  []string
		want    policy.Outcome
	}{
		{"1.0.0", "", ci, policy.Allowed},
		{"1.0.0", right, ci, policy.Allowed},
		{"v1.0", right, ci, policy.Allowed},
		{"1.0.0+other", right, ci, policy.NotAllowed},
		{"1.1.0", right, ci, policy.NotAllowed},
		{"1.1.0+build", right, ci, policy.Allowed},
		{"1.1.0+build", other, ci, policy.NotLocked},
		{"1.0.0", other, ci, policy.NotLocked},
		{"1.0.0", right, nil, policy.NotAllowed},
		{"1.0.0", other, nil, policy.NotAllowed},
		{"1.0.0-rc1", right, ci, policy.NotAllowed},
		{"1.0.1", right, ci, policy.NotAllowed},
		{"1.2.0", right, nil, policy.Allowed},
		{"1.2.0", other, nil, policy.Allowed},
		{"1.2.0", "h1:third", nil, policy.NotLocked},
	} {
		for _, m := range []modproxy.Address{vpc, {Host: host, Namespace: "Acme", Name: "VPC", System: "aws"}} {
			got := r.For(m, test.groups).Decide(version(t, test.version), policy.VersionFacts{Sum: test.sum}, policy.Decided{}, day)
			equal(t, test.version+" with "+string(test.sum), got.Outcome, test.want)
		}
	}
	only := compile(t, policy.Config{DefaultDeny: true, Rules: []policy.Rule{locked}})
	equal(t, "the module for others", only.For(vpc, nil).Module().Outcome, policy.NotAllowed)
	equal(t, "the module", only.For(vpc, ci).Module().Outcome, policy.Allowed)
}

// Compile rejects rules that have no useful meaning.
func TestCompileRefuses(t *testing.T) {
	allow, deny := rule(t, 1, "allow "+all), rule(t, 1, "deny "+all)
	with := func(r policy.Rule, f func(*policy.Rule)) policy.Rule { f(&r); return r }
	for name, c := range map[string]policy.Config{
		"an empty rule":           {Rules: []policy.Rule{{}}},
		"both":                    {DefaultDeny: true, Rules: []policy.Rule{with(allow, func(r *policy.Rule) { r.Deny = r.Allow })}},
		"allow without effect":    {Rules: []policy.Rule{allow}},
		"lock without effect":     {Rules: []policy.Rule{{Locked: []policy.Locked{}}}},
		"a reason to allow":       {DefaultDeny: true, Rules: []policy.Rule{with(allow, func(r *policy.Rule) { r.Reason = "x" })}},
		"age of a deny":           {Rules: []policy.Rule{with(deny, func(r *policy.Rule) { r.MinAge = 1 })}},
		"approval of a deny":      {Rules: []policy.Rule{with(deny, func(r *policy.Rule) { r.Approval = true })}},
		"a negative age":          {DefaultDeny: true, Rules: []policy.Rule{with(allow, func(r *policy.Rule) { r.MinAge = -1 })}},
		"versions of a lock file": {DefaultDeny: true, Rules: []policy.Rule{{Locked: []policy.Locked{}, Versions: constraint(t, "1")}}},
		"no namespace":            {Reserved: []policy.Reserve{{Namespace: ""}}},
		"a namespace and a name":  {Reserved: []policy.Reserve{{Namespace: "a/b"}}},
		"a host that is none":     {Reserved: []policy.Reserve{{Namespace: "a", Hosts: []string{"-"}}}},
		"a host as typed":         {Reserved: []policy.Reserve{{Namespace: "a", Hosts: []string{"Registry.example.com:443"}}}},
	} {
		if _, err := policy.Compile(c); err == nil {
			t.Errorf("%s is compiled", name)
		}
	}
}

// The host of a reserved namespace may be requested in capitals.
func TestReservedHostCase(t *testing.T) {
	r := compile(t, policy.Config{Reserved: []policy.Reserve{{Namespace: "acme", Hosts: []string{host}}}})
	loud := vpc
	loud.Host = "REGISTRY.example.com"
	equal(t, "in capitals", r.For(loud, nil).Module().Outcome, r.For(vpc, nil).Module().Outcome)
}

// A text names a reserved namespace in any spelling. A namespace is denied as a whole if every possible module in it is
// denied to the client.
func TestCheckNamespace(t *testing.T) {
	deny := func(text string, more policy.Rule) policy.Rule {
		more.Deny = pattern(t, text)
		return more
	}
	allow := func(text string, more policy.Rule) policy.Rule {
		more.Allow = pattern(t, text)
		return more
	}
	for name, c := range map[string]struct {
		config policy.Config
		want   bool // the namespace is denied
	}{
		"no rules":                 {policy.Config{}, false},
		"denied":                   {policy.Config{Rules: []policy.Rule{deny("*/acme/*/*", policy.Rule{})}}, true},
		"denied by a part":         {policy.Config{Rules: []policy.Rule{deny("*/ac*/*/*", policy.Rule{})}}, true},
		"audited":                  {policy.Config{Audit: true, Rules: []policy.Rule{deny("*/acme/*/*", policy.Rule{})}}, false},
		"some names are denied":    {policy.Config{Rules: []policy.Rule{deny("*/acme/a*/*", policy.Rule{})}}, false},
		"some systems are denied":  {policy.Config{Rules: []policy.Rule{deny("*/acme/*/aws", policy.Rule{})}}, false},
		"its providers are denied": {policy.Config{Rules: []policy.Rule{deny("*/acme/*", policy.Rule{})}}, false},
		"another is denied":        {policy.Config{Rules: []policy.Rule{deny("*/other/*/*", policy.Rule{})}}, false},
		"denied for others":        {policy.Config{Rules: []policy.Rule{deny("*/acme/*/*", policy.Rule{Groups: []string{"x"}})}}, false},
		"not allowed":              {policy.Config{DefaultDeny: true, Rules: []policy.Rule{allow("*/other/*/*", policy.Rule{})}}, true},
		"allowed for others":       {policy.Config{DefaultDeny: true, Rules: []policy.Rule{allow("*/acme/*/*", policy.Rule{Groups: []string{"x"}})}}, true},
		"one may be allowed":       {policy.Config{DefaultDeny: true, Rules: []policy.Rule{allow("*/acme/vpc/aws", policy.Rule{})}}, false},
		"reserved":                 {policy.Config{Reserved: []policy.Reserve{{Namespace: "acme"}}}, true},
	} {
		err := gate(compile(t, c.config)).CheckNamespace(t.Context(), "registry.example.com", "ACME")
		if (err != nil) != c.want || err != nil && !errors.Is(err, modproxy.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReservedInText(t *testing.T) {
	g := gate(compile(t, policy.Config{Reserved: []policy.Reserve{
		{Namespace: "acme-platform", Hosts: []string{host}}, {Namespace: "corp*"}, {Namespace: "x_*_z"},
	}}))
	for text, want := range map[string]bool{
		"acme-platform": true, "ACME Platform": true, "vpc acme_platform aws": true, "acme/platform/vpc": true, "myacme-platforms": true,
		"acme  platform": true, "corp": true, "the corporation": true, "x y z": true,
		"\uff43orp": true, "\uff23\uff2f\uff32\uff30": true, "co\u0301rp": true, "\U0001d41corp": true, "c\u200borp": true, "\uff43or": false,
		"acme": false, "platform": false, "vpc": false, "": false,
		// The words of a name in another order, or with others between, and escaped any number of times.
		"platform acme": true, "acme OR platform": true, "platform vpc ACME": true, "acme platforms": true, "nginx platform": false,
		"acme%2Dplatform": true, "platform%20acme": true, "platform%252520acme": true, "%63orp": true, "%2563orp": true, "%zzcorp": true,
		"c%6frp%": true, "%63or": false, "acme%": false,
	} {
		if err := g.ReservedIn("public.example.com", text); errors.Is(err, modproxy.ErrDenied) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := g.ReservedIn(strings.ToUpper(host), "acme-platform"); err != nil {
		t.Errorf("at its own host: %v", err)
	}
}
