package ledgertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"

	"golang.org/x/mod/module"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
)

// Some spellings of vpc.
var (
	upper = modproxy.Address{Host: vpc.Host, Namespace: "ACME", Name: "VPC", System: "aws"}
	title = modproxy.Address{Host: vpc.Host, Namespace: "Acme", Name: "vpc", System: "aws"}
)

// testSpellings: all spellings of an address have one content, regardless of the spelling that was recorded or accepted.
func testSpellings(t *testing.T, a, b Handle) {
	first := NewRecord(title, "1.2.3", "a")
	must(t, a.Add(t.Context(), first))
	for _, m := range []modproxy.Address{vpc, upper} {
		wantErr(t, m.String(), b.Add(t.Context(), NewRecord(m, "1.2.3", "b")), modproxy.ErrChanged)
		elsewhere := NewRecord(m, "1.2.3", "a")
		elsewhere.Subdir = "examples/evil"
		wantErr(t, m.String()+" in another directory", b.Add(t.Context(), elsewhere), modproxy.ErrChanged)
		if got, err := b.Lookup(t.Context(), m.At("1.2.3")); err != nil || got != first {
			t.Errorf("Lookup %s: %v, %v", m, got, err)
		}
		if had, err := b.Had(t.Context(), m.At("1.2.3"), first.Sum); !had || err != nil {
			t.Errorf("Had %s: %v, %v", m, had, err)
		}
	}
	wantRecords(t, b, first)
	_, err := b.ServerOps().Lookup(t.Context(), module.Version{Path: "registry.example.com/acme/vpc/aws", Version: "v1.2.3"})
	if !errors.Is(err, fs.ErrNotExist) || !os.IsNotExist(err) {
		t.Errorf("served as another spelling: %v", err)
	}

	// Equal content is recorded in each spelling.
	lower := NewRecord(vpc, "1.2.3", "a")
	lower.Subdir = ""
	must(t, b.Add(t.Context(), lower))
	must(t, b.Add(t.Context(), lower))
	wantRecord(t, a, lower)
	wantRecord(t, a, first)
	wantRecords(t, a, first, lower)

	// An acceptance in one spelling, even one without a record, counts in all.
	other := accepted(NewRecord(upper, "1.2.3", "c"), "the tag was moved")
	must(t, a.Accept(t.Context(), other))
	for _, m := range []modproxy.Address{title, vpc} {
		other.Ref = m.At("1.2.3")
		wantRecord(t, b, other)
	}
	wantErr(t, "Add of the superseded record", b.Add(t.Context(), NewRecord(upper, "1.2.3", "a")), modproxy.ErrChanged)
	must(t, b.Add(t.Context(), NewRecord(upper, "1.2.3", "c")))
	if got := len(list(t, a.All(t.Context()))); got != 5 {
		t.Errorf("%d records, want 5", got)
	}
	wantErr(t, "Accept of another version", a.Accept(t.Context(), accepted(NewRecord(upper, "2.0.0", "c"), "why")), fs.ErrNotExist)
	if got := list(t, a.Drifts(t.Context())); len(got) > 0 {
		t.Errorf("observations: %v", got)
	}
}

// testSpellAtOnce: if spellings with different contents are added concurrently, one content counts for all.
func testSpellAtOnce(t *testing.T, a, b Handle) {
	for round := range 20 {
		version := fmt.Sprintf("1.%d.0", round)
		var adding sync.WaitGroup
		errs := make([]error, 3)
		for i, m := range []modproxy.Address{vpc, title, upper} {
			l := []ledger.Ledger{a, b, a}[i]
			adding.Go(func() { errs[i] = l.Add(t.Context(), NewRecord(m, version, m.Namespace)) })
		}
		adding.Wait()
		added := 0
		for _, err := range errs {
			if err == nil {
				added++
			} else if !errors.Is(err, modproxy.ErrChanged) {
				t.Error(err)
			}
		}
		if added != 1 {
			t.Errorf("%d of 3 were added", added)
		}
	}
}
