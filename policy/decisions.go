package policy

import (
	"context"
	"maps"
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

type moduleDecisions struct {
	blocks, reviews, deprecations kept
	made                          int // how many there were, with those that others have taken the place of
}

// kept are the decisions of one kind that none has taken the place of.
type kept struct {
	exact  map[string]standing // those about one version, by its [modproxy.Version.Rank]
	ranges map[string]standing // the others, by the one spelling of their versions
}

// standing is a decision that none has taken the place of.
type standing struct {
	*modproxy.Decision
	versions modproxy.Constraint
	exact    *modproxy.Version // if it is about one version
	key      string            // in kept
	number   int               // later decisions have greater ones
}

func newStanding(d *modproxy.Decision) standing {
	s := standing{Decision: d}
	if d.Versions != "" {
		s.versions, _ = modproxy.ParseConstraint(d.Versions) // the ledger has checked it
		s.key = s.versions.Canonical()
		if v, err := modproxy.ParseVersion(s.key); err == nil {
			s.exact, s.key = &v, v.Rank()
		}
	}
	return s
}

// about reports whether the decision is about a version.
func (s standing) about(v modproxy.Version) bool {
	if s.Action == modproxy.Approve {
		return s.versions.Selects(v)
	}
	return s.versions.Covers(v)
}

// list returns where s belongs.
func (k *kept) list(s standing) *map[string]standing {
	if s.exact != nil {
		return &k.exact
	}
	return &k.ranges
}

func (k *kept) put(s standing) {
	list := k.list(s)
	if Ends(*s.Decision) {
		delete(*list, s.key)
		return
	}
	if *list == nil {
		*list = map[string]standing{}
	}
	(*list)[s.key] = s
}

// all returns every decision, in the order in which they were made.
func (k *kept) all() []standing {
	return slices.SortedFunc(func(yield func(standing) bool) {
		for _, list := range []map[string]standing{k.exact, k.ranges} {
			for _, s := range list {
				if !yield(s) {
					return
				}
			}
		}
	}, func(a, b standing) int { return a.number - b.number })
}

// of returns the last decision that is about a version, which has ranks.
func (k *kept) of(v modproxy.Version, ranks []string) *modproxy.Decision {
	var last standing
	see := func(s standing, ok bool) {
		if ok && s.about(v) && (last.Decision == nil || s.number > last.number) {
			last = s
		}
	}
	for _, rank := range ranks {
		s, ok := k.exact[rank]
		see(s, ok)
	}
	for _, s := range k.ranges {
		see(s, true)
	}
	return last.Decision
}

// with returns all with more decisions, in the order in which they were made.
func (all decisions) with(more []modproxy.Decision) decisions {
	grown := maps.Clone(all)
	if grown == nil {
		grown = decisions{}
	}
	changed := map[modproxy.Module]bool{}
	for i := range more {
		d := &more[i]
		m := d.Module.Folded()
		if !changed[m] {
			grown[m] = grown[m].clone()
			changed[m] = true
		}
		made := newStanding(d)
		made.number = grown[m].made
		grown[m].made++
		grown[m].kind(d.Action).put(made)
	}
	return grown
}

func (m *moduleDecisions) clone() *moduleDecisions {
	if m == nil {
		return &moduleDecisions{}
	}
	c := *m
	for _, k := range c.kinds() {
		k.exact, k.ranges = maps.Clone(k.exact), maps.Clone(k.ranges)
	}
	return &c
}

func (m *moduleDecisions) kinds() []*kept { return []*kept{&m.blocks, &m.reviews, &m.deprecations} }

// Ends reports whether a decision only ends another one.
func Ends(d modproxy.Decision) bool {
	return d.Action == modproxy.Unblock || d.Action == modproxy.Deprecate && d.Reason == ""
}

// kind returns the decisions of the kind of an action.
func (m *moduleDecisions) kind(a modproxy.Action) *kept {
	switch a {
	case modproxy.Block, modproxy.Unblock:
		return &m.blocks
	case modproxy.Deprecate:
		return &m.deprecations
	}
	return &m.reviews
}

// Standing tells of each decision of a list, in the order in which they were made, whether it is in force.
func Standing(list []modproxy.Decision, now time.Time) []bool {
	last := map[*modproxy.Decision]bool{}
	for _, m := range decisions(nil).with(list) {
		for _, kind := range m.kinds() {
			for _, s := range kind.all() {
				last[s.Decision] = !ended(s.Decision, now)
			}
		}
	}
	stands := make([]bool, len(list))
	for i := range list {
		stands[i] = last[&list[i]]
	}
	return stands
}

// Place returns the decision in force that d takes the place of, or nil, and the others in force that are of its kind
// and about its module.
func (g *Gate) Place(ctx context.Context, d modproxy.Decision) (was *modproxy.Decision, others []modproxy.Decision, err error) {
	s, err := g.now(ctx)
	if err != nil {
		return nil, nil, err
	}
	now, made := time.Now(), newStanding(&d)
	for _, s := range s.decisions.about(d.Module).kind(d.Action).all() {
		switch {
		case ended(s.Decision, now):
		case s.key == made.key:
			was = s.Decision
		default:
			others = append(others, *s.Decision)
		}
	}
	return was, others, nil
}

// Decisions returns the decisions that are about a version.
func (g *Gate) Decisions(ctx context.Context, v modproxy.ModuleVersion) (Decided, error) {
	s, err := g.now(ctx)
	if err != nil {
		return Decided{}, err
	}
	version, err := modproxy.ParseVersion(v.Version)
	return s.decisions.about(v.Module).of(version), err
}

var noDecisions = &moduleDecisions{}

// about returns the decisions about a module.
func (all decisions) about(m modproxy.Module) *moduleDecisions {
	if len(all) > 0 {
		if about := all[m.Folded()]; about != nil {
			return about
		}
	}
	return noDecisions
}

// of returns the decisions about a version.
func (m *moduleDecisions) of(v modproxy.Version) Decided {
	if m == noDecisions {
		return Decided{}
	}
	ranks := []string{v.Rank()} // of what a decision about it may be about
	if v.Prerelease() {
		ranks = append(ranks, v.Release().Rank())
	}
	return Decided{m.blocks.of(v, ranks), m.reviews.of(v, ranks), m.deprecations.of(v, ranks)}
}

// blocked returns the block of every version, or nil.
func (m *moduleDecisions) blocked() *modproxy.Decision { return m.blocks.ranges[""].Decision }
