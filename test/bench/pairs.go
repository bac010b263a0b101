package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// The proxies of the pairs part. The second is like the first, so that the difference between them is chance.
const (
	serverPlain  = "modproxy"
	serverAgain  = "another one like it"
	serverGated  = "with 10 rules"
	serverTokens = "with a token"
	serverSilent = "without a log"
)

// pairReport compares the processor time of a request, turn by turn, between one side and the other.
type pairReport struct {
	Target string   `json:"target"`
	Pair   string   `json:"pair"`
	CPU    float64  `json:"cpu_per_request"` // of the second side
	Ratio  interval `json:"ratio"`
	Most   float64  `json:"target_ratio,omitempty"`
}

// interval is the median of ratios, and the limits of the true ratio with 95 %.
type interval struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Turns  int     `json:"turns"`
}

func (i interval) String() string {
	return fmt.Sprintf("×%.3f (%.3f to %.3f)", i.Median, i.Low, i.High)
}

// enoughTurns is the number of turns for an interval that is narrower than the range of all values.
const enoughTurns = 8

// verdict reports whether a ratio is at most a target. A difference that may be chance is not called missed.
func (i interval) verdict(most float64) string {
	if i.Turns < enoughTurns {
		return "too few turns"
	}
	return met(i.Low <= most)
}

// between returns the median of at least one value, with its interval from order statistics.
func between(values []float64) interval {
	sorted := slices.Sorted(slices.Values(values))
	n := float64(len(sorted))
	low := max(0, int(math.Floor((n-1.96*math.Sqrt(n))/2)))
	return interval{Median: median(sorted), Low: sorted[low], High: sorted[len(sorted)-1-low], Turns: len(sorted)}
}

// measurePairs sends the same requests to proxies that differ in one thing, and compares documents that should cost the same on one
// proxy, for a second each, in changing order.
func (b *bench) measurePairs(ctx context.Context, r *report) error {
	var servers []server
	for _, s := range []struct{ name, more string }{
		{serverPlain, ""}, {serverAgain, ""}, {serverGated, rules()},
		{serverTokens, withTokens}, {serverSilent, withoutLog},
	} {
		started, err := b.startBeside(ctx, s.name, s.more+longFresh)
		if err != nil {
			return err
		}
		if _, err := b.copyAnswers(ctx, started, []module{listed, small, large}); err != nil {
			return err
		}
		servers = append(servers, started)
	}
	for _, t := range targets() {
		if err := t.prepare(ctx, servers); err != nil {
			return err
		}
		if err := b.takeTurns(ctx, t.servers); err != nil {
			return err
		}
		plain, again, gated, tokens, silent := t.servers[0], t.servers[1], t.servers[2], t.servers[3], t.servers[4]
		b.addPair(r, t.name, "another one like it to one", again, plain, 0)
		b.addPair(r, t.name, "10 rules to none", gated, plain, 1.03)
		b.addPair(r, t.name, "a token to none", tokens, plain, 0)
		b.addPair(r, t.name, "a line of log to none", plain, silent, 0)
	}
	details := &target{name: "details", module: listed, question: "details", coding: "gzip"}
	versions := &target{name: "versions", module: listed, question: "versions", coding: "gzip"}
	var both []*measured
	for _, t := range []*target{details, versions} {
		m, a, err := t.of(ctx, servers[0])
		if err != nil {
			return err
		}
		t.bytes = len(a.body)
		both = append(both, m)
	}
	if err := b.takeTurns(ctx, both); err != nil {
		return err
	}
	sizes := fmt.Sprintf("%d bytes to %d of versions", details.bytes, versions.bytes)
	b.addPair(r, "details, gzip", sizes, both[0], both[1], 1.1)
	return nil
}

// takeTurns measures all, with the same number of turns.
func (b *bench) takeTurns(ctx context.Context, all []*measured) error {
	for turn := range b.pairTurns {
		for i := range all {
			if err := all[(turn+i)%len(all)].turn(ctx, b, time.Second); err != nil {
				return err
			}
		}
	}
	return nil
}

// addPair compares m with other.
func (b *bench) addPair(r *report, target, name string, m, other *measured, most float64) {
	p := pairReport{Target: target, Pair: name, Most: most}
	p.CPU, p.Ratio = median(other.cpu).Seconds(), between(other.ratios(m))
	b.say("%s, %s: %v", target, name, p.Ratio)
	r.Pairs = append(r.Pairs, p)
}

// ratios are the ratios of m's processor time for a request to that of other, turn by turn.
func (m *measured) ratios(other *measured) (all []float64) {
	for i := range m.cpu {
		all = append(all, other.cpu[i].Seconds()/m.cpu[i].Seconds())
	}
	return all
}

// rules are ten rules; some match the requests, and allow them.
func rules() string {
	text := "policy:\n  default: deny\n  rules:\n  - allow: " + registryHost + "/acme/*/aws\n  - {deny: \"*/*/*/aws\", versions: \"> 1000\"}\n"
	for i := range 8 {
		text += fmt.Sprintf("  - deny: \"*/*-%d/*/*\"\n", i)
	}
	return text
}

func writePairs(w io.Writer, pairs []pairReport) {
	if len(pairs) == 0 {
		return
	}
	turns := pairs[0].Ratio.Turns
	fmt.Fprintf(w, "\nPairs: processor time of a request (cpu: of the second), medians of %d turns of 1s, 95 %% intervals\n\n", turns)
	fmt.Fprintln(w, "\tpair\tcpu\tratio")
	last := ""
	for _, p := range pairs {
		name := p.Target
		if name == last {
			name = ""
		}
		last = p.Target
		note := ""
		if p.Most > 0 {
			note = fmt.Sprintf("\ttarget: at most %.2f\t%s", p.Most, p.Ratio.verdict(p.Most))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%v%s\n", name, p.Pair, inUnit(p.CPU), p.Ratio, note)
	}
}
