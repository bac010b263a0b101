package bundle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
)

// Decisions made here are ended only here. Decisions of the exporting side are taken over if they deny or deprecate, and, if they allow,
// only with AllDecisions and if no decision here denies.
func TestDecisionsOfBothSides(t *testing.T) {
	type decision struct {
		action           modproxy.Action
		versions, reason string
	}
	for name, test := range map[string]struct {
		here, there  decision
		unasked, all bool // whether it is taken over without and with AllDecisions
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
			there.keep(network.At("2.0.0"), "two") // no decision is about this version
			for i, made := range []decision{test.here, test.there} {
				if made.action == "" {
					continue
				}
				at := long.Add(time.Duration(i) * time.Minute)
				d := modproxy.Decision{Address: network, Action: made.action, Versions: made.versions, By: "operator", Time: at, Reason: made.reason}
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

// A denial decided here stays in force, for a module or a glob, and the exporting side cannot overrule it.
func TestImportOverrulesNothing(t *testing.T) {
	one, glob, wide, other := network, network, network, network
	glob.Host, wide.Host, wide.Name, other.Host = "*", "*", "*", "other.example.com"
	type made struct {
		modproxy.Address
		modproxy.Action
		versions string
	}
	const approve, reject, block, unblock = modproxy.Approve, modproxy.Reject, modproxy.Block, modproxy.Unblock
	for name, test := range map[string]struct {
		here, there []made
		want        string // the actions that are taken over
	}{
		"block of a glob":           {nil, []made{{glob, block, ""}}, "block"},
		"block of another module":   {nil, []made{{other, block, ""}}, ""},
		"approval of a glob":        {[]made{{one, reject, "1.0.0"}}, []made{{glob, approve, "< 2"}}, ""},
		"approval of a module":      {[]made{{glob, reject, ""}}, []made{{one, approve, "1.0.0"}}, ""},
		"approval of other modules": {[]made{{other, reject, ""}}, []made{{one, approve, "1.0.0"}}, "approve"},
		"unblock of a glob":         {[]made{{one, block, ""}}, []made{{glob, block, ""}, {glob, unblock, ""}}, "block"},
		"unblock of a module":       {[]made{{glob, block, ""}}, []made{{one, block, ""}, {one, unblock, ""}}, ""},
		"block, then unblock":       {nil, []made{{glob, block, ""}, {one, unblock, ""}}, "block unblock"},
		"reject, then approve":      {[]made{{one, reject, "1.0.0"}}, []made{{wide, reject, "1.0.0"}, {one, approve, "1.0.0"}}, "reject"},
		"what was ended here":       {[]made{{one, reject, "< 1.1"}, {glob, approve, "< 1.1"}}, []made{{one, approve, "< 2"}}, "approve"},
		"other builds, rejected":    {[]made{{one, reject, "1.0.0"}, {one, approve, "1.0.0"}}, []made{{one, approve, "< 2"}}, ""},
	} {
		here, there := newSide(t), newSide(t)
		for _, m := range []modproxy.Address{network, subnet} {
			there.keep(m.At("1.0.0"), m.Name)
		}
		for i, side := range []*side{here, there} {
			for j, d := range [][]made{test.here, test.there}[i] {
				at := long.Add(time.Duration(i)*time.Hour + time.Duration(j)*time.Minute)
				decision := modproxy.Decision{Address: d.Address, Action: d.Action, Versions: d.versions, By: "operator", Time: at, Reason: "x"}
				must(t, side.log.Decide(t.Context(), decision))
			}
		}
		x := here.importer(there)
		x.AllDecisions = true
		if _, err := states(x, t.Context(), there.export(nil)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		list, _, err := here.log.Decisions(t.Context(), int64(len(test.here)))
		must(t, err)
		var got []string
		for _, d := range list {
			got = append(got, string(d.Action))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %q was taken over, want %q", name, got, test.want)
		}
	}
}
