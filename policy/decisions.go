package policy

import (
	"slices"

	"github.com/modproxy/modproxy"
)

// Decided are the decisions that hold for one version; each may be nil.
type Decided struct {
	Block       *modproxy.Decision
	Review      *modproxy.Decision // the last one that approves or rejects; it may have ended
	Deprecation *modproxy.Decision
}

// decisions are those that count, by folded module. They are not changed.
type decisions map[modproxy.Module]*moduleDecisions

type moduleDecisions struct{ blocks, reviews, deprecations []standing }

// standing is a decision that none has taken the place of.
type standing struct {
	*modproxy.Decision
	versions modproxy.Constraint
}

// with returns all with more decisions, in the order in which they were made.
func (all decisions) with(more []modproxy.Decision) decisions {
	grown := make(decisions, len(all)+1)
	for m, was := range all {
		grown[m] = was
	}
	changed := map[modproxy.Module]bool{}
	for i := range more {
		d := &more[i]
		m := d.Module.Folded()
		switch was := grown[m]; {
		case was == nil:
			grown[m] = &moduleDecisions{}
		case !changed[m]:
			grown[m] = &moduleDecisions{slices.Clone(was.blocks), slices.Clone(was.reviews), slices.Clone(was.deprecations)}
		}
		changed[m] = true
		grown[m].add(d)
	}
	return grown
}

func (m *moduleDecisions) add(d *modproxy.Decision) {
	var versions modproxy.Constraint
	if d.Versions != "" {
		versions, _ = modproxy.ParseConstraint(d.Versions) // the ledger has checked it
	}
	list, ends := &m.reviews, false
	switch d.Action {
	case modproxy.Block, modproxy.Unblock:
		list, ends = &m.blocks, d.Action == modproxy.Unblock
	case modproxy.Deprecate:
		list, ends = &m.deprecations, d.Reason == ""
	}
	*list = slices.DeleteFunc(*list, func(s standing) bool { return s.versions.Canonical() == versions.Canonical() })
	if !ends {
		*list = append(*list, standing{d, versions})
	}
}

// about returns the decisions about a module; nil if there are none.
func (all decisions) about(m modproxy.Module) *moduleDecisions {
	if len(all) == 0 {
		return nil
	}
	return all[m.Folded()]
}

// of returns the decisions about a version.
func (m *moduleDecisions) of(v modproxy.Version) Decided {
	if m == nil {
		return Decided{}
	}
	last := func(list []standing) *modproxy.Decision {
		for _, s := range slices.Backward(list) {
			if s.Action == modproxy.Approve && s.versions.Selects(v) || s.Action != modproxy.Approve && s.versions.Covers(v) {
				return s.Decision
			}
		}
		return nil
	}
	return Decided{last(m.blocks), last(m.reviews), last(m.deprecations)}
}

// blocked returns the block of every version, or nil.
func (m *moduleDecisions) blocked() *modproxy.Decision {
	if m != nil {
		for _, s := range m.blocks {
			if s.Versions == "" {
				return s.Decision
			}
		}
	}
	return nil
}
