package policy

import (
	"context"
	"slices"
	"time"

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
	versions  modproxy.Constraint
	canonical string // the one spelling of versions
}

// inForce reports whether the decision has not ended by itself.
func (s standing) inForce(now time.Time) bool { return s.Until.IsZero() || s.Until.After(now) }

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

// Ends reports whether a decision only ends another one.
func Ends(d modproxy.Decision) bool {
	return d.Action == modproxy.Unblock || d.Action == modproxy.Deprecate && d.Reason == ""
}

// kind returns the decisions of the kind of an action.
func (m *moduleDecisions) kind(a modproxy.Action) *[]standing {
	switch a {
	case modproxy.Block, modproxy.Unblock:
		return &m.blocks
	case modproxy.Deprecate:
		return &m.deprecations
	}
	return &m.reviews
}

func newStanding(d *modproxy.Decision) standing {
	s := standing{Decision: d}
	if d.Versions != "" {
		s.versions, _ = modproxy.ParseConstraint(d.Versions) // the ledger has checked it
		s.canonical = s.versions.Canonical()
	}
	return s
}

func (m *moduleDecisions) add(d *modproxy.Decision) {
	made, list := newStanding(d), m.kind(d.Action)
	*list = slices.DeleteFunc(*list, func(s standing) bool { return s.canonical == made.canonical })
	if !Ends(*d) {
		*list = append(*list, made)
	}
}

// Standing tells of each decision of a list, in the order in which they were made, whether it is in force.
func Standing(list []modproxy.Decision, now time.Time) []bool {
	last := map[*modproxy.Decision]bool{}
	for _, m := range decisions(nil).with(list) {
		for _, kind := range [][]standing{m.blocks, m.reviews, m.deprecations} {
			for _, s := range kind {
				last[s.Decision] = s.inForce(now)
			}
		}
	}
	stands := make([]bool, len(list))
	for i := range list {
		stands[i] = last[&list[i]]
	}
	return stands
}

// Place returns the decision in force that d takes the place of, or nil, and the others in force that are of its kind and
// about its module.
func (g *Gate) Place(ctx context.Context, d modproxy.Decision) (was *modproxy.Decision, others []modproxy.Decision, err error) {
	s, err := g.now(ctx)
	if err != nil {
		return nil, nil, err
	}
	m := s.decisions.about(d.Module)
	if m == nil {
		return nil, nil, nil
	}
	now, made := time.Now(), newStanding(&d)
	for _, s := range *m.kind(d.Action) {
		switch {
		case !s.inForce(now):
		case s.canonical == made.canonical:
			was = s.Decision
		default:
			others = append(others, *s.Decision)
		}
	}
	return was, others, nil
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
