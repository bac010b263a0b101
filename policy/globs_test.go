package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/policy"
)

// For any sequence of decisions about modules and globs, the last decision about a module and its versions counts.
func TestDecisionsAboutGlobs(t *testing.T) {
	addresses := []string{"a.example/acme/vpc/aws", "b.example/acme/vpc/aws", "b.example/ACME/Vpc/aws", "a.example/acme/vnet/aws", "a.example/acme/vpc"}
	globs := []string{"*/acme/vpc/aws", "a.example/*/*/*", "*/*/v*/*", "*.example/ac*/*pc/aws", "*/*/*", "*/acme/vp*"}
	actions := []modproxy.Action{modproxy.Block, modproxy.Unblock, modproxy.Approve, modproxy.Reject}
	versions := []string{"", "1.0.0", "< 2.0.0"}
	open := compile(t, policy.Config{})
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		b := &book{}
		stepwise, story := policy.NewGate(b, nil), []string{}
		stepwise.Use(open)
		for range 1 + random.IntN(12) {
			address := slices.Concat(addresses, globs)[random.IntN(len(addresses)+len(globs))]
			d := modproxy.Decision{Address: module(address), Action: actions[random.IntN(len(actions))], Versions: versions[random.IntN(len(versions))], By: "eve", Time: day}
			b.add(d)
			story = append(story, fmt.Sprint(d.Action, " ", address, " ", d.Versions))
			if err := stepwise.Follow(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		atOnce := policy.NewGate(b, nil)
		atOnce.Use(open)
		for _, address := range addresses {
			last := map[string]modproxy.Action{} // by kind and versions
			for _, d := range b.list {
				kind := map[modproxy.Action]string{modproxy.Block: "block ", modproxy.Unblock: "block "}[d.Action]
				if pattern(t, d.Address.String()).Match(module(address)) {
					last[kind+d.Versions] = d.Action
				}
			}
			blocked := last["block "] == modproxy.Block || last["block 1.0.0"] == modproxy.Block || last["block < 2.0.0"] == modproxy.Block
			for name, g := range map[string]*policy.Gate{"stepwise": stepwise, "at once": atOnce} {
				verdict, err := g.Decide(t.Context(), module(address).At("1.0.0"))
				if err != nil || (verdict.Outcome == policy.Blocked) != blocked {
					t.Fatalf("%s, %s: %s, %v; blocked must be %t after:\n%s", address, name, verdict.Outcome, err, blocked, strings.Join(story, "\n"))
				}
				whole, err := g.Decide(t.Context(), module(address).At(""))
				if want := last["block "] == modproxy.Block; err != nil || (whole.Outcome == policy.Blocked) != want {
					t.Fatalf("%s, %s: the module is %s, %v; blocked must be %t after:\n%s", address, name, whole.Outcome, err, want, strings.Join(story, "\n"))
				}
			}
			// Of the decisions in force about the version, the last review counts, and any block.
			stands, standing := policy.InForce(b.list, day), false
			for i, d := range b.list {
				standing = standing || stands[i] && d.Action == modproxy.Block && pattern(t, d.Address.String()).Match(module(address))
			}
			if blocked && !standing {
				t.Fatalf("%s is blocked, and no block is in force after:\n%s", address, strings.Join(story, "\n"))
			}
		}
	}
}

// A later review of a module replaces an earlier review of a glob, and the other way round.
func TestLastReviewCounts(t *testing.T) {
	wait := rules(t, "allow approval "+all)
	one, glob := vpc.String(), "*/acme/*/aws"
	for _, test := range []struct {
		made [][3]string
		want policy.Outcome
	}{
		{[][3]string{{"reject", glob, "1.0.0"}, {"approve", one, "1.0.0"}}, policy.Allowed},
		{[][3]string{{"approve", one, "1.0.0"}, {"reject", glob, "1.0.0"}}, policy.Rejected},
		{[][3]string{{"approve", one, "1.0.0"}, {"reject", glob, "< 2"}}, policy.Rejected},
		{[][3]string{{"reject", glob, ""}, {"approve", one, "1.0.0"}}, policy.Allowed},
		{[][3]string{{"reject", one, "1.0.0"}, {"approve", glob, "< 2"}}, policy.Allowed},
		{[][3]string{{"approve", glob, "1.0.0"}}, policy.Allowed},
		{[][3]string{{"approve", "*/*/*", "1.0.0"}}, policy.Unapproved},
		{[][3]string{{"approve", glob, "1.0.0"}, {"block", "*/*/*/*", ""}}, policy.Blocked},
	} {
		b := &book{}
		for _, d := range test.made {
			b.add(modproxy.Decision{Address: module(d[1]), Action: modproxy.Action(d[0]), Versions: d[2], By: "eve", Time: day})
		}
		g := policy.NewGate(b, nil)
		g.Use(wait)
		equal(t, fmt.Sprint(test.made), outcome(t, g, "1.0.0"), test.want)
	}
}

// A block of every module of a namespace blocks the namespace: its lists are not requested.
func TestNamespaceIsBlocked(t *testing.T) {
	for address, want := range map[string]bool{
		"*/acme/*/*": true, host + "/ac*/*/*": true, "*/*/*/*": true, "*/acme/*": false, "*/acme/vpc/*": false, "other.example/acme/*/*": false,
	} {
		b := &book{}
		b.add(modproxy.Decision{Address: module(address), Action: modproxy.Block, By: "eve", Time: day})
		g := policy.NewGate(b, nil)
		err := g.CheckNamespace(t.Context(), host, "Acme")
		equal(t, address, err != nil, want)
		b.add(modproxy.Decision{Address: module(address), Action: modproxy.Unblock, By: "eve", Time: day})
		if err := g.Follow(t.Context()); err != nil {
			t.Fatal(err)
		}
		equal(t, address+" unblocked", g.CheckNamespace(t.Context(), host, "acme"), nil)
	}
}

// A decision is about the modules that its glob matches, in any spelling, and about globs that match some of these
// modules.
func TestIsAbout(t *testing.T) {
	for _, test := range []struct {
		decision, module string
		want             bool
	}{
		{"*/acme/vpc/aws", "a.example/ACME/vpc/aws", true},
		{"*/acme/vpc/aws", "a.example/acme/vpcs/aws", false},
		{"a.example/acme/vpc/aws", "*/ac*/*c/aws", true},
		{"*/ab*/vpc/aws", "*/*ba/vpc/aws", true},
		{"*/ab*/vpc/aws", "*/ba*/vpc/aws", false},
		{"*/a*c*/vpc/aws", "*/*b*d/vpc/aws", true},
		{"*/a*c/vpc/aws", "*/a*d/vpc/aws", false},
		{"*/acme/*", "*/acme/*/*", false},
		{"*/acme/*", "a.example/acme/toy", true},
		{"A.example/Acme/vpc/aws", "a.example/acme/VPC/aws", true},
	} {
		d := modproxy.Decision{Address: module(test.decision)}
		equal(t, test.decision+" and "+test.module, policy.IsAbout(d, module(test.module)), test.want)
	}
}

// BenchmarkGlobDecisions measures a verdict among ten thousand decisions about globs.
func BenchmarkGlobDecisions(b *testing.B) {
	l := &book{}
	for i := range 10_000 {
		m := modproxy.Address{Host: "*", Namespace: "acme", Name: fmt.Sprintf("m-%d", i), System: "aws"}
		l.list = append(l.list, modproxy.Decision{Address: m, Action: modproxy.Approve, Versions: "1.0.0", By: "eve", Time: day})
	}
	g := policy.NewGate(l, nil)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m := vpc
		m.Name = fmt.Sprintf("m-%d", i%20_000)
		if _, err := g.Decide(b.Context(), m.At("1.0.0")); err != nil {
			b.Fatal(err)
		}
	}
}
