package bundle

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
)

// By is what the name of who decided begins with if the decision came in a bundle.
const By = "bundle: "

// decide takes over decisions, before the packages that they are about.
func (x *imports) decide(ctx context.Context) (items []Item, err error) {
	made, _, err := x.Ledger.Decisions(ctx, 0)
	if err != nil {
		return nil, err
	}
	type name struct {
		modproxy.Module
		modproxy.Action
		versions string
		time     int64
	}
	nameOf := func(d modproxy.Decision) name {
		return name{d.Module.Folded(), d.Action, d.Versions, d.Time.UnixNano()}
	}
	known := map[name]bool{}
	for _, d := range made {
		known[nameOf(d)] = true
	}
	for _, d := range x.Decisions {
		if known[nameOf(d)] || !d.Until.IsZero() && d.Until.Before(time.Now()) {
			continue
		}
		if err := x.Gate.Follow(ctx); err != nil {
			return nil, err
		}
		if ok, err := x.wanted(ctx, d); err != nil {
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

// wanted reports whether a decision of the other side is taken over.
func (x *imports) wanted(ctx context.Context, d modproxy.Decision) (bool, error) {
	was, others, err := x.Gate.Place(ctx, d)
	if err != nil {
		return false, err
	}
	stands := func(o modproxy.Decision) bool { // and was made here
		return (o.Action == modproxy.Block || o.Action == modproxy.Reject) && !strings.HasPrefix(o.By, By)
	}
	if was != nil && stands(*was) {
		return false, nil
	}
	switch {
	case d.Action == modproxy.Block, d.Action == modproxy.Reject, d.Action == modproxy.Deprecate && d.Reason != "":
		return true, nil
	case !x.AllDecisions:
		return false, nil
	case d.Action != modproxy.Approve: // it ends what came from the other side, and nothing else
		return was != nil && strings.HasPrefix(was.By, By), nil
	}
	return !slices.ContainsFunc(others, stands), nil
}
