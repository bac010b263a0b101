package main

import (
	"bufio"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/ledger"
)

// A long list is printed in parts with one header. The columns of each part are at least as wide as those of the part before.
func TestPackageTableInParts(t *testing.T) {
	var out strings.Builder
	table := packageTable{out: bufio.NewWriter(&out)}
	for i := range packagesAtOnce + 1 {
		p := admin.Package{Name: versionname.Name{Module: "registry.example.com/acme/vpc/aws", Version: "1.0.0"}, State: "kept"}
		if i == 0 {
			p.Module = "registry.example.com/acme/long-name/aws"
			p.Notes = []string{"one"}
		}
		if err := table.add(p); err != nil {
			t.Fatal(err)
		}
		if i == packagesAtOnce-1 && !strings.Contains(out.String(), "acme") {
			t.Error("nothing was printed before the end")
		}
	}
	if err := table.flush(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	last := "registry.example.com/acme/vpc/aws        1.0.0    kept   0B    -"
	switch {
	case len(lines) != packagesAtOnce+3, strings.Count(out.String(), "MODULE") != 1, lines[2] != "  note: one":
		t.Errorf("%d lines, which begin with\n%s", len(lines), strings.Join(lines[:3], "\n"))
	case lines[len(lines)-1] != last, lines[len(lines)-2] != last:
		t.Errorf("%q and %q, want %q", lines[len(lines)-2], lines[len(lines)-1], last)
	}
}

// Names and texts in lists may come from untrusted sources.
func TestListsArePrintable(t *testing.T) {
	const odd = "a\u202eb"
	made := &modproxy.Decision{By: odd, Reason: odd}
	var out strings.Builder
	table := packageTable{out: bufio.NewWriter(&out)}
	table.add(admin.Package{Notes: []string{odd}, Blocked: made, Deprecated: made})
	if err := table.flush(); err != nil {
		t.Fatal(err)
	}
	out.WriteString(decisionsText([]admin.Decision{{Decision: *made}}))
	out.WriteString(recordText(admin.Record{Record: modproxy.Record{Reason: odd, Source: modproxy.Source{URL: odd}}}))
	out.WriteString(driftText(admin.Drift{Drift: ledger.Drift{Source: modproxy.Source{URL: odd}}}))
	if got := out.String(); strings.Contains(got, odd) || strings.Count(got, `a\u202eb`) != 10 {
		t.Errorf("%q", got)
	}
}
