package bundle

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/policy"
)

// By is the beginning of the field By of a [modproxy.Decision] that came in a bundle.
const By = "bundle: "

// decide takes over decisions. It runs before the packages that they are about are imported.
func (x *imports) decide(ctx context.Context) (items []Item, err error) {
	made, _, err := x.Ledger.Decisions(ctx, 0)
	if err != nil {
		return nil, err
	}
	type name struct {
		modproxy.Address
		modproxy.Action
		versions string
		time     int64
	}
	nameOf := func(d modproxy.Decision) name {
		return name{d.Address.Folded(), d.Action, d.Versions, d.Time.UnixNano()}
	}
	known := map[name]bool{}
	here := &decidedHere{Log: x.Ledger}
	for _, d := range made {
		known[nameOf(d)] = true
		if !strings.HasPrefix(d.By, By) {
			here.list = append(here.list, d)
		}
	}
	ours := policy.NewGate(here, nil)
	for _, d := range x.Decisions {
		if known[nameOf(d)] || !d.Until.IsZero() && d.Until.Before(time.Now()) {
			continue
		}
		if err := x.Gate.Follow(ctx); err != nil {
			return nil, err
		}
		if ok, err := x.wanted(ctx, ours, d); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		if d.By = By + d.By; len(d.By) > ledger.MaxReason {
			d.By = By + x.Signer
		}
		if err := x.Ledger.Decide(ctx, d); err != nil {
			return nil, err
		}
		items = append(items, ItemOf(d.At(""), Decided, strings.TrimSpace(string(d.Action)+" "+d.Versions)))
	}
	return items, x.Gate.Follow(ctx)
}

// decidedHere is the ledger without the decisions of bundles.
type decidedHere struct {
	*ledger.Log
	list []modproxy.Decision
}

// Decisions implements [policy.Ledger].
func (l *decidedHere) Decisions(_ context.Context, from int64) ([]modproxy.Decision, int64, error) {
	return l.list[from:], int64(len(l.list)), nil
}

// wanted reports whether to take over a decision of the exporting side. ours has the decisions that were made here. A decision is not
// taken over if it would end or overrule a denial among these, for any module that both are about.
func (x *imports) wanted(ctx context.Context, ours *policy.Gate, d modproxy.Decision) (bool, error) {
	here, err := ours.Place(ctx, d)
	if err != nil {
		return false, err
	}
	refuses := func(o modproxy.Decision) bool { return o.Action == modproxy.Block || o.Action == modproxy.Reject }
	if here.Was != nil && refuses(*here.Was) {
		return false, nil
	}
	switch {
	case d.Action == modproxy.Block, d.Action == modproxy.Reject, d.Action == modproxy.Deprecate && d.Reason != "":
		return true, nil
	case !x.AllDecisions:
		return false, nil
	case d.Action == modproxy.Approve:
		return !slices.ContainsFunc(here.Same, refuses) && !slices.ContainsFunc(here.Others, refuses), nil
	}
	all, err := x.Gate.Place(ctx, d) // it may only end decisions of the exporting side
	return (all.Was != nil || len(all.Same) > 0) && here.Was == nil && len(here.Same) == 0, err
}
