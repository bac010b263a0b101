package release

import (
	"errors"
	"testing"

	"github.com/modproxy/modproxy"
)

// The ledger's facts about a release are its archives, the other checksums, and the signers.
func TestFacts(t *testing.T) {
	r := example(t)
	facts, err := r.Facts()
	if err != nil {
		t.Fatal(err)
	}
	all, err := facts.Zips.All()
	if err != nil || len(all) != len(r.Archives) {
		t.Errorf("archives %q, %v", facts.Zips, err)
	}
	for _, a := range r.Archives {
		if all[a.Platform] != a.Digest {
			t.Errorf("%s: %s, want %s", a.Platform, all[a.Platform], a.Digest)
		}
	}
	if len(facts.Keys.All()) != 1 {
		t.Errorf("keys %q", facts.Keys)
	}
	changed := *r
	changed.Sums = append([]byte(nil), r.Sums...)
	changed.Sums[0] ^= 1
	if facts, err := changed.Facts(); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("checksums that nobody signed: %+v, %v", facts, err)
	}
	changed = *r
	changed.Unsigned, changed.Keys, changed.Signature = true, nil, nil
	if facts, err := changed.Facts(); err != nil || facts.Keys != "" || facts.Zips == "" {
		t.Errorf("unsigned: %+v, %v", facts, err)
	}
}
