package bundle_test

import (
	"testing"
	"time"

	"github.com/modproxy/modproxy"
)

// What was decided here ends by what is decided here. The other side adds what refuses and deprecates, and what it allows
// only where that is asked for, and nothing refuses here.
func TestDecisionsOfBothSides(t *testing.T) {
	type decision struct {
		action           modproxy.Action
		versions, reason string
	}
	for name, test := range map[string]struct {
		here, there  decision
		unasked, all bool // whether it is taken over
	}{
		"blocked":                     {there: decision{modproxy.Block, "1.0.0", "bad"}, unasked: true, all: true},
		"rejected":                    {there: decision{modproxy.Reject, "1.0.0", "bad"}, unasked: true, all: true},
		"deprecated":                  {there: decision{modproxy.Deprecate, "1.0.0", "old"}, unasked: true, all: true},
		"approved":                    {there: decision{modproxy.Approve, "1.0.0", "fine"}, all: true},
		"nothing to unblock":          {there: decision{modproxy.Unblock, "1.0.0", "fine"}},
		"approved and rejected":       {here: decision{modproxy.Approve, "1.0.0", "fine"}, there: decision{modproxy.Reject, "1.0.0", "bad"}, unasked: true, all: true},
		"approved twice":              {here: decision{modproxy.Approve, "1.0.0", "fine"}, there: decision{modproxy.Approve, "< 2", "fine"}, all: true},
		"blocked and unblocked":       {here: decision{modproxy.Block, "1.0.0", "bad"}, there: decision{modproxy.Unblock, "1.0.0", "fine"}},
		"rejected and approved":       {here: decision{modproxy.Reject, "1.0.0", "bad"}, there: decision{modproxy.Approve, "1.0.0", "fine"}},
		"rejected and more approved":  {here: decision{modproxy.Reject, "1.0.0", "bad"}, there: decision{modproxy.Approve, "< 2", "fine"}},
		"deprecated, and not anymore": {here: decision{modproxy.Deprecate, "1.0.0", "old"}, there: decision{modproxy.Deprecate, "1.0.0", ""}},
	} {
		for _, all := range []bool{false, true} {
			here, there := newSide(t), newSide(t)
			there.keep(network.At("2.0.0"), "two") // which no decision is about
			for i, made := range []decision{test.here, test.there} {
				if made.action == "" {
					continue
				}
				at := long.Add(time.Duration(i) * time.Minute)
				d := modproxy.Decision{Module: network, Action: made.action, Versions: made.versions, By: "operator", Time: at, Reason: made.reason}
				must(t, []*side{here, there}[i].log.Decide(t.Context(), d))
			}
			x, want := here.importer(there), "added"
			x.AllDecisions = all
			if all && test.all || !all && test.unasked {
				want = "decided added"
			}
			if got, err := states(x, t.Context(), there.export(nil)); err != nil || got != want {
				t.Errorf("%s, all decisions %t: %q, %v; want %q", name, all, got, err, want)
			}
		}
	}
}
