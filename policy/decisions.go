package policy

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/memory"
)

// Decided contains the decisions in force for one version. Each may be nil.
type Decided struct {
	Block       *modproxy.Decision
	Review      *modproxy.Decision // the last approval or rejection; it may have ended
	Deprecation *modproxy.Decision
}

// decisions contains all decisions that count, by the module or glob that they are about. It is immutable.
type decisions struct {
	byAddress map[modproxy.Address]*moduleDecisions // by folded address
	globs     *node[*moduleDecisions]               // the decisions about globs; nil without any
	merged    memory.Cache[modproxy.Address, *moduleDecisions]
	made      int // number of all decisions, with the replaced ones
}

// moduleDecisions are the decisions about one address, or about all addresses that match a module.
type moduleDecisions struct {
	address                       modproxy.Address
	blocks, reviews, deprecations kept
}

// with returns a copy of all with more decisions added, in the order in which they were made.
func (all *decisions) with(more []modproxy.Decision) *decisions {
	grown := &decisions{byAddress: maps.Clone(all.byAddress), globs: all.globs, made: all.made}
	if grown.byAddress == nil {
		grown.byAddress = map[modproxy.Address]*moduleDecisions{}
	}
	changed := map[modproxy.Address]bool{}
	aboutGlobs := false
	for i := range more {
		d := &more[i]
		m := d.Address.Folded()
		if !changed[m] {
			grown.byAddress[m] = grown.byAddress[m].clone(m)
			changed[m] = true
		}
		aboutGlobs = aboutGlobs || d.IsGlob()
		made := newStanding(d)
		grown.made++
		made.number = grown.made
		grown.byAddress[m].kind(d.Action).put(made)
	}
	if aboutGlobs {
		grown.globs = &node[*moduleDecisions]{}
		for address, about := range grown.byAddress {
			if isGlobAddress(address) {
				segments := segmentsOf(address)
				grown.globs.add(segments[:], about)
			}
		}
	}
	if grown.globs != nil {
		grown.merged.Max = maxMerged
	}
	return grown
}

const maxMerged = 4096 // modules that also match globs of decisions

// clone returns a copy of m that may be changed. m may be nil.
func (m *moduleDecisions) clone(address modproxy.Address) *moduleDecisions {
	if m == nil {
		return &moduleDecisions{address: address}
	}
	c := *m
	for _, k := range c.kinds() {
		k.exact, k.ranges = maps.Clone(k.exact), maps.Clone(k.ranges)
	}
	return &c
}

func (m *moduleDecisions) kinds() []*kept { return []*kept{&m.blocks, &m.reviews, &m.deprecations} }

// Ends reports whether a decision only ends another decision.
func Ends(d modproxy.Decision) bool {
	return d.Action == modproxy.Unblock || d.Action == modproxy.Deprecate && d.Reason == ""
}

// Reviews reports whether a decision is an approval or a rejection.
func Reviews(d modproxy.Decision) bool {
	return d.Action == modproxy.Approve || d.Action == modproxy.Reject
}

// kind returns the decisions of the same kind as an action.
func (m *moduleDecisions) kind(a modproxy.Action) *kept {
	switch a {
	case modproxy.Block, modproxy.Unblock:
		return &m.blocks
	case modproxy.Deprecate:
		return &m.deprecations
	case modproxy.Approve, modproxy.Reject:
	}
	return &m.reviews
}

// InForce reports for each decision of a list, in the order in which they were made, whether it is in force. A
// decision about a glob is in force until a later decision is about all modules that the glob matches.
func InForce(list []modproxy.Decision, now time.Time) []bool {
	last := map[*modproxy.Decision]bool{}
	all := new(decisions).with(list)
	for address := range all.byAddress {
		for _, kind := range all.about(address).kinds() {
			for _, s := range kind.all() {
				if s.Address.Folded() == address {
					last[s.Decision] = !ended(s.Decision, now)
				}
			}
		}
	}
	stands := make([]bool, len(list))
	for i := range list {
		stands[i] = last[&list[i]]
	}
	return stands
}

// A Position says which decisions in force a new decision replaces, and which ones it leaves.
type Position struct {
	// Was is of the same kind, and about the same versions of every module that the new decision is about. It may be
	// nil.
	Was *modproxy.Decision
	// Partly is true if later decisions have replaced Was for some of these modules or versions.
	Partly bool
	// Same are the other decisions about the same versions of some of these modules. Others are about other versions.
	Same, Others []modproxy.Decision
}

// Place returns the place of d among the decisions in force.
func (g *Gate) Place(ctx context.Context, d modproxy.Decision) (p Position, err error) {
	s, err := g.now(ctx)
	if err != nil {
		return p, err
	}
	now, made := time.Now(), newStanding(&d)
	kind := s.decisions.about(d.Address).kind(d.Action)
	whole := kind.get(made)
	p.Partly = Reviews(d) && kind.opposed(made, whole.number)
	for _, s := range s.decisions.overlapping(d.Address, d.Action) {
		switch {
		case ended(s.Decision, now):
		case s.Decision == whole.Decision:
			p.Was = s.Decision
		case s.key != made.key:
			p.Others = append(p.Others, *s.Decision)
		default:
			p.Same = append(p.Same, *s.Decision)
		}
	}
	for _, about := range s.decisions.within(d.Address) {
		p.Partly = p.Partly || about.kind(d.Action).get(made).number > whole.number
	}
	return p, nil
}

// overlapping returns the decisions in force of the same kind as an action that are about some modules that m matches,
// in the order in which they were made. m is a module or a glob.
func (all *decisions) overlapping(m modproxy.Address, a modproxy.Action) []standing {
	list := all.about(m).kind(a).all()
	for _, about := range all.within(m) {
		for _, s := range about.kind(a).all() {
			if s.Address.Folded() == about.address {
				list = append(list, s)
			}
		}
	}
	slices.SortFunc(list, inOrder)
	return list
}

// within returns the decisions about each address that overlaps the glob m, but is not about all modules that m
// matches. Without a glob the list is empty.
func (all *decisions) within(m modproxy.Address) (list []*moduleDecisions) {
	m = m.Folded()
	if !isGlobAddress(m) {
		return nil
	}
	for address := range all.byAddress {
		if overlap(address, m) && !contains(address, m) {
			list = append(list, all.about(address))
		}
	}
	return list
}

// Decisions returns the decisions in force for a version.
func (g *Gate) Decisions(ctx context.Context, v modproxy.Ref) (Decided, error) {
	s, err := g.now(ctx)
	if err != nil {
		return Decided{}, err
	}
	v = v.Base()
	version, err := modproxy.ParseVersion(v.Version)
	return s.decisions.about(v.Address).of(version), err
}

var noDecisions = &moduleDecisions{}

// IsAbout reports whether d is about m, in any spelling. If m is a glob, IsAbout reports whether d is about some
// modules that m matches.
func IsAbout(d modproxy.Decision, m modproxy.Address) bool {
	return overlap(d.Address.Folded(), m.Folded())
}

// Covers reports whether d is about a version, in any spelling of its address.
func Covers(d modproxy.Decision, v modproxy.Ref) bool {
	v = v.Base()
	version, err := modproxy.ParseVersion(v.Version)
	return err == nil && IsAbout(d, v.Address) && newStanding(&d).about(version)
}

// about returns the decisions about a module. For a glob, it returns the decisions about all modules that the glob
// matches.
func (all *decisions) about(m modproxy.Address) *moduleDecisions {
	if all.made == 0 {
		return noDecisions
	}
	m = m.Folded()
	if all.globs != nil {
		if merged := all.merge(m); merged != nil {
			return merged
		}
	}
	if about := all.byAddress[m]; about != nil {
		return about
	}
	return noDecisions
}

// merge returns the decisions about a module and about the globs that match it, or nil if no glob matches.
func (all *decisions) merge(m modproxy.Address) *moduleDecisions {
	if merged, ok := all.merged.Get(m); ok {
		return merged
	}
	var merged *moduleDecisions
	add := func(more *moduleDecisions) {
		if merged == nil {
			merged = &moduleDecisions{address: m}
		}
		for i, kind := range more.kinds() {
			for _, list := range []map[string]standing{kind.exact, kind.ranges} {
				for _, s := range list {
					merged.kinds()[i].put(s)
				}
			}
		}
	}
	segments := segmentsOf(m)
	all.globs.find(segments[:], add)
	if about := all.byAddress[m]; merged != nil && about != nil {
		add(about)
	}
	if merged != nil {
		all.merged.Add(m, merged, memory.Forever, 0)
	}
	return merged
}

// of returns the decisions about a version.
func (m *moduleDecisions) of(v modproxy.Version) Decided {
	if m == noDecisions {
		return Decided{}
	}
	keys := []string{v.Rank(), v.Build()} // the keys that a decision about v may have
	if v.Prerelease() {
		keys = append(keys, v.Release().Rank())
	}
	return Decided{m.blocks.of(v, keys), m.reviews.of(v, keys), m.deprecations.of(v, keys)}
}

// blocked returns the block of every version, or nil.
func (m *moduleDecisions) blocked() *modproxy.Decision {
	block := m.blocks.ranges[""].Decision
	if block == nil || Ends(*block) {
		return nil
	}
	return block
}
