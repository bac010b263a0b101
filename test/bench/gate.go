package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"
)

// The proxies of the gate part. The second is like the first: what differs between those two is chance.
const (
	serverPlain = "modproxy"
	serverAgain = "modproxy again"
	serverGated = "modproxy with 10 rules"
)

// gateTurns are the turns of each proxy for one of the flag -rounds, of a second each.
const gateTurns = 10

// pairReport compares the processor time of a request, turn by turn: of a proxy to that of another one
// that was asked for the same beside it.
type pairReport struct {
	Target string  `json:"target"`
	CPU    float64 `json:"cpu_per_request"` // without rules
	// Rules is the proxy with rules, Null another one without, each to the one without.
	Rules interval `json:"with_rules_to_without"`
	Null  interval `json:"without_to_without"`
}

// interval is the median of ratios, and what the true one lies between with 95 %.
type interval struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Turns  int     `json:"turns"`
}

func (i interval) String() string {
	return fmt.Sprintf("×%.3f (%.3f to %.3f)", i.Median, i.Low, i.High)
}

// between returns the median of at least one value, with the interval that order statistics give it.
func between(values []float64) interval {
	sorted := slices.Sorted(slices.Values(values))
	n := float64(len(sorted))
	low := max(0, int(math.Floor((n-1.96*math.Sqrt(n))/2)))
	return interval{Median: median(sorted), Low: sorted[low], High: sorted[len(sorted)-1-low], Turns: len(sorted)}
}

// measureGate asks proxies with and without rules for the same, a second each, in an order that turns.
func (b *bench) measureGate(ctx context.Context, r *report) error {
	modules := []module{listed, small, large}
	var servers []server
	for _, s := range []struct{ name, rules string }{{serverPlain, ""}, {serverAgain, ""}, {serverGated, rules()}} {
		started, err := b.startBeside(ctx, s.name, s.rules, modules)
		if err != nil {
			return err
		}
		servers = append(servers, started)
	}
	for _, t := range targets() {
		if err := t.prepare(ctx, servers); err != nil {
			return err
		}
		for turn := range gateTurns * b.rounds {
			for i := range t.servers {
				m := t.servers[(turn+i)%len(t.servers)]
				if err := m.turn(ctx, b, t, time.Second); err != nil {
					return err
				}
			}
		}
		plain := t.servers[0]
		p := pairReport{Target: t.name, CPU: median(plain.cpu).Seconds(), Null: between(plain.ratios(t.servers[1])), Rules: between(plain.ratios(t.servers[2]))}
		b.say("%s: with rules %v, without %v", t.name, p.Rules, p.Null)
		r.Gate = append(r.Gate, p)
	}
	return nil
}

// ratios are those of other's processor time for a request to m's, turn by turn.
func (m *measured) ratios(other *measured) (all []float64) {
	for i := range m.cpu {
		all = append(all, other.cpu[i].Seconds()/m.cpu[i].Seconds())
	}
	return all
}

// startBeside starts another proxy, which runs until the end, and keeps all about modules.
func (b *bench) startBeside(ctx context.Context, name, rules string, modules []module) (s server, err error) {
	dir, err := os.MkdirTemp(b.data, "beside-")
	if err != nil {
		return s, err
	}
	p, err := b.runProxy(dir, rules)
	if err != nil {
		return s, err
	}
	b.servers = append(b.servers, p)
	s = server{name: name, pids: func() []int { return family(p.ID()) }}
	if s.url, err = p.URL(ctx); err == nil {
		_, err = b.copyAnswers(ctx, s.url, modules)
	}
	return s, err
}

// rules are ten, of which some are about what is asked for, and let it pass.
func rules() string {
	text := "policy:\n  default: deny\n  rules:\n  - allow: " + registryHost + "/acme/*/aws\n  - {deny: \"*/*/*/aws\", versions: \"> 1000\"}\n"
	for i := range 8 {
		text += fmt.Sprintf("  - deny: \"*/*-%d/*/*\"\n", i)
	}
	return text
}

func writeGate(w io.Writer, pairs []pairReport) {
	if len(pairs) == 0 {
		return
	}
	fmt.Fprintf(w, "\nThe gate: processor time of a request, medians of %d turns of 1s with their 95 %% intervals\n\n", pairs[0].Rules.Turns)
	fmt.Fprintln(w, "\twithout rules\twith 10 rules (target: at most ×1.03)\tanother one without rules")
	for _, p := range pairs {
		// What may be chance is not called missed.
		fmt.Fprintf(w, "%s\t%s\t%v%s\t%v\n", p.Target, inUnit(p.CPU), p.Rules, missed(p.Rules.Low > 1.03), p.Null)
	}
}
