package ledger_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

// spelled returns a record of a module in a spelling.
func spelled(namespace, seed string) ledger.Record {
	m := modproxy.Address{Host: host, Namespace: namespace, Name: "vpc", System: "aws"}
	return ledgertest.NewRecord(m, "1.2.3", seed)
}

// TestContradictions: a ledger of an earlier version may have several contents of one address. It opens. The first record
// counts for all spellings, and those that contradict it are drift until an operator accepts one.
func TestContradictions(t *testing.T) {
	for accepted, seed := range map[string]string{"the first one": "a", "another one": "b", "a new one": "c"} {
		dir := t.TempDir()
		l := mustOpen(t, dir)
		for _, r := range []ledger.Record{spelled("team", "a"), spelled("Team", "b"), spelled("TEAM", "a")} {
			if err := ledger.AddUnchecked(l, r); err != nil {
				t.Fatal(err)
			}
		}
		l.Close()
		l = mustOpen(t, dir)
		for namespace, as := range map[string]string{"team": "team", "Team": "team", "TEAM": "TEAM", "teaM": "team"} {
			got, err := l.Lookup(t.Context(), spelled(namespace, "").Ref)
			if err != nil || got.Sum != ledgertest.Sum("a") || got.Namespace != as {
				t.Errorf("%s: %v, %v", namespace, got, err)
			}
		}
		if err := l.Add(t.Context(), spelled("Team", "b")); !errors.Is(err, modproxy.ErrChanged) {
			t.Errorf("Add of what contradicts: %v", err)
		}
		if had, err := l.Had(t.Context(), spelled("team", "").Ref, ledgertest.Sum("b")); !had || err != nil {
			t.Errorf("Had what contradicts: %v, %v", had, err)
		}
		if _, _, err := l.Number(spelled("Team", "").Ref); err == nil {
			t.Error("a record that does not count is exported")
		}
		found := drifts(t, l)
		if len(found) != 1 || found[0].Namespace != "Team" || found[0].Recorded != ledgertest.Sum("a") || found[0].Offered != ledgertest.Sum("b") {
			t.Errorf("drift: %+v", found)
		}

		// An export contains all of these records, and so does a ledger that imports it.
		var export bytes.Buffer
		if err := l.Export(&export); err != nil {
			t.Fatal(err)
		}
		trust, err := ledger.Verifiers(l.VerifierKey())
		if err != nil {
			t.Fatal(err)
		}
		copied := mustOpen(t, t.TempDir())
		if n, err := copied.Import(t.Context(), &export, trust); n != 3 || err != nil {
			t.Errorf("import: %d, %v", n, err)
		}

		r := spelled("teaM", seed)
		r.Reason = "they say so"
		if err := l.Accept(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		l.Close()
		l = mustOpen(t, dir)
		for _, namespace := range []string{"team", "Team", "TEAM"} {
			got, err := l.Lookup(t.Context(), spelled(namespace, "").Ref)
			if err != nil || got.Sum != r.Sum || got.Namespace != namespace {
				t.Errorf("accepted %s: %s: %v, %v", accepted, namespace, got, err)
			}
		}
		if found := drifts(t, l); len(found) > 0 {
			t.Errorf("accepted %s: drift: %+v", accepted, found)
		}
	}
}

// TestAcceptedInOneSpelling: an acceptance that an earlier version recorded for one spelling counts for all, and is not drift.
func TestAcceptedInOneSpelling(t *testing.T) {
	l := mustOpen(t, t.TempDir())
	accepted := spelled("team", "b")
	accepted.Reason = "they say so"
	for _, r := range []ledger.Record{spelled("team", "a"), spelled("Team", "a"), accepted} {
		if err := ledger.AddUnchecked(l, r); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := l.Lookup(t.Context(), spelled("Team", "").Ref); err != nil || got != accepted {
		t.Errorf("%v, %v", got, err)
	}
	if found := drifts(t, l); len(found) > 0 {
		t.Errorf("drift: %+v", found)
	}
	if err := l.Add(t.Context(), spelled("Team", "a")); !errors.Is(err, modproxy.ErrChanged) {
		t.Errorf("Add of what counted before: %v", err)
	}
}

// TestRegistrySpellings: other content is refused in every spelling, and the message names the recorded one. Equal content is
// recorded.
func TestRegistrySpellings(t *testing.T) {
	u, l := &upstream{sum: ledgertest.Sum("a")}, mustOpen(t, t.TempDir())
	var events []ledger.Kind
	r := &ledger.Registry{Next: u, Ledger: l, Observe: func(e ledger.Event) { events = append(events, e.Kind) }}
	get := func(namespace string) error {
		p, err := r.Package(t.Context(), spelled(namespace, "").Ref)
		if err == nil {
			err = p.Close()
		}
		return err
	}
	if err := errors.Join(get("team"), get("TEAM")); err != nil {
		t.Fatal(err)
	}
	u.sum = ledgertest.Sum("b")
	for _, namespace := range []string{"team", "Team", "TEAM"} {
		err := get(namespace)
		if !errors.Is(err, modproxy.ErrChanged) || strings.Contains(err.Error(), "as "+host+"/team/vpc/aws") != (namespace == "Team") {
			t.Errorf("%s: %v", namespace, err)
		}
	}
	if want := []ledger.Kind{ledger.Recorded, ledger.Recorded, ledger.Drifted, ledger.Drifted, ledger.Drifted}; !slices.Equal(events, want) {
		t.Errorf("events %v, want %v", events, want)
	}
	if found := drifts(t, l); len(found) != 2 || found[0].Offered != u.sum {
		t.Errorf("drift: %+v", found)
	}
}
