package ledgertest

import (
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
)

func wantDecisions(t *testing.T, l Handle, from, next int64, want ...modproxy.Decision) {
	t.Helper()
	got, behind, err := l.Decisions(t.Context(), from)
	must(t, err)
	if d := cmp.Diff(want, append([]modproxy.Decision(nil), got...)); d != "" || behind != next {
		t.Errorf("Decisions from %d: the next is %d, want %d: %s", from, behind, next, d)
	}
}

// testDecisions: decisions are stored in their order, repetitions included. They are not records, neither for readers of the
// ledger nor for sumdb clients.
func testDecisions(t *testing.T, a, b Handle) {
	wantDecisions(t, a, 0, 0)
	block := NewDecision(vpc, modproxy.Block, "1.2.3")
	must(t, a.Decide(t.Context(), block)) // no record is necessary
	_, err := b.Lookup(t.Context(), vpc.At("1.2.3"))
	wantErr(t, "Lookup of a version with a decision", err, fs.ErrNotExist)
	_, err = serve(t, a).Lookup(t.Context(), vpc.At("1.2.3"))
	wantErr(t, "sumdb lookup of a version with a decision", err, fs.ErrNotExist)
	_, err = serve(t, a).Lookup(t.Context(), vpc.At("0.0.0"))
	wantErr(t, "sumdb lookup of the version in the path of decisions", err, fs.ErrNotExist)

	var records []ledger.Record
	want := []modproxy.Decision{block}
	c := serve(t, a)
	for i := range 130 { // more than one tile
		r := NewRecord(vpc, fmt.Sprintf("1.2.%d", i), fmt.Sprint(i))
		must(t, b.Add(t.Context(), r))
		d := NewDecision(vpc, modproxy.Approve, r.Version)
		// A reason cannot pass for a line of go.sum.
		d.Until, d.Reason = when.AddDate(1, 0, 0), vpc.String()+" v"+r.Version+" "+string(Sum("other"))
		must(t, a.Decide(t.Context(), d))
		records, want = append(records, r), append(want, d)
	}
	for _, i := range []int{0, 3, 64, 127, 129} {
		wantLine(t, c, records[i])
	}
	must(t, b.Decide(t.Context(), block)) // an exact repetition
	want = append(want, block)
	wantDecisions(t, a, 0, 132, want...)
	wantDecisions(t, b, 130, 132, want[130:]...)
	wantDecisions(t, b, 132, 132)
	wantRecords(t, b, records...)
	if drifts := list(t, a.Drifts(t.Context())); len(drifts) > 0 {
		t.Errorf("drifts %v", drifts)
	}

	elsewhere := NewDecision(modproxy.Address{Host: "localhost:8443", Namespace: "Acme", Name: "VPC", System: "aws"}, modproxy.Deprecate, "")
	elsewhere.Link, elsewhere.Time = "https://example.com/advisory", when.In(time.FixedZone("", 3600))
	must(t, a.Decide(t.Context(), elsewhere))
	elsewhere.Time = when
	wantDecisions(t, b, 132, 133, elsewhere)
	wantRecord(t, b, records[129])

	for i, glob := range []modproxy.Address{
		{Host: "*", Namespace: "acme", Name: "vpc", System: "aws"},
		{Host: "*.example.com:8443", Namespace: "*", Name: "v_*", System: "*"},
		{Host: "registry.example.com", Namespace: "acme", Name: "*"}, // providers
	} {
		d := NewDecision(glob, modproxy.Block, "1.2.3")
		must(t, a.Decide(t.Context(), d))
		wantDecisions(t, b, int64(133+i), int64(134+i), d)
	}
}

func testDecideInvalid(t *testing.T, a, b Handle) {
	for name, change := range map[string]func(*modproxy.Decision){
		"no module":           func(d *modproxy.Decision) { d.Address = modproxy.Address{} },
		"unnormalised":        func(d *modproxy.Decision) { d.Host = "Registry.example.com" },
		"glob, upper case":    func(d *modproxy.Decision) { d.Host, d.Namespace = "*", "Acme" },
		"glob, two stars":     func(d *modproxy.Decision) { d.Host = "**" },
		"glob, an empty part": func(d *modproxy.Decision) { d.Host, d.Namespace = "*", "" },
		"glob, a blank":       func(d *modproxy.Decision) { d.Host, d.Namespace = "*", "acme block" },
		"glob, a slash":       func(d *modproxy.Decision) { d.Host, d.Namespace = "*", "a/b" },
		"no action":           func(d *modproxy.Decision) { d.Action = "" },
		"unknown action":      func(d *modproxy.Decision) { d.Action = "allow" },
		"two words":           func(d *modproxy.Decision) { d.Action = "block it" },
		"no constraint":       func(d *modproxy.Decision) { d.Versions = "latest" },
		"constraint, lines":   func(d *modproxy.Decision) { d.Versions = "> 1,\n< 2" },
		"no operator":         func(d *modproxy.Decision) { d.By = "" },
		"by two lines":        func(d *modproxy.Decision) { d.By = "alice\nreason x" },
		"no time":             func(d *modproxy.Decision) { d.Time = time.Time{} },
		"until of a block":    func(d *modproxy.Decision) { d.Until = when },
		"reason, two lines":   func(d *modproxy.Decision) { d.Reason = "one\ntwo" },
		"reason, a separator": func(d *modproxy.Decision) { d.Reason = "one\u2028two" },
		"long reason":         func(d *modproxy.Decision) { d.Reason = strings.Repeat("x", 1025) },
		"blank at the end":    func(d *modproxy.Decision) { d.Reason = "one " },
		"not UTF-8":           func(d *modproxy.Decision) { d.Reason = "\xff" },
		"link of a block":     func(d *modproxy.Decision) { d.Link = "https://example.com" },
		"link by http":        func(d *modproxy.Decision) { d.Action, d.Link = modproxy.Deprecate, "http://example.com" },
		"link to a script":    func(d *modproxy.Decision) { d.Action, d.Link = modproxy.Deprecate, "javascript:alert(1)" },
		"link with a name":    func(d *modproxy.Decision) { d.Action, d.Link = modproxy.Deprecate, "https://me:secret@example.com" },
	} {
		d := NewDecision(vpc, modproxy.Block, "1.2.3")
		change(&d)
		wantErr(t, name, a.Decide(t.Context(), d), modproxy.ErrInvalid)
	}
	wantDecisions(t, b, 0, 0)
}

// testDecideAtOnce: concurrent decisions about one module are all stored.
func testDecideAtOnce(t *testing.T, a, b Handle) {
	const goroutines, each = 8, 16
	var wg sync.WaitGroup
	for g := range goroutines {
		l := []Handle{a, b}[g%2]
		wg.Go(func() {
			for i := range each {
				if err := l.Decide(t.Context(), NewDecision(vpc, modproxy.Block, fmt.Sprintf("%d.%d.0", g, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, next, err := b.Decisions(t.Context(), 0)
	must(t, err)
	var seen [goroutines]int
	for _, d := range got {
		var g, i int
		if _, err := fmt.Sscanf(d.Versions, "%d.%d.0", &g, &i); err != nil || i != seen[g] {
			t.Errorf("%s, want the %d. decision of its goroutine: %v", d.Versions, seen[g]+1, err)
		}
		seen[g]++
	}
	if len(got) != goroutines*each || next != goroutines*each {
		t.Errorf("%d decisions, the next is %d; want %d", len(got), next, goroutines*each)
	}
}
