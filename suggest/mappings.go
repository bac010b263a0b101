package suggest

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
)

// entry is a Mapping without what is about its modules.
type entry struct{ address, source, path, tags string }

func (m Mapping) entry() entry { return entry{m.Address, m.Source, m.Path, m.Tags} }

// mappings returns the mappings of called modules: first those of one module, then patterns. A pattern has at least two modules, and
// matches no module of another pattern.
func mappings(modules map[moduleKey]*module) (all []Mapping) {
	patterns := map[entry]*Mapping{}
	for _, m := range modules {
		if !m.isCalled || m.pattern.Address == "" {
			continue
		}
		p := patterns[m.pattern.entry()]
		if p == nil {
			p = &m.pattern
			patterns[p.entry()] = p
		}
		p.Modules++
	}
	chosen := map[string][]*Mapping{} // by namespace
	byModules := func(a, b *Mapping) int { return cmp.Or(cmp.Compare(b.Modules, a.Modules), compare(*a, *b)) }
	for _, p := range slices.SortedFunc(maps.Values(patterns), byModules) {
		namespace, _, _ := strings.Cut(p.Address, "/")
		overlaps := slices.ContainsFunc(chosen[namespace], func(other *Mapping) bool { return overlap(p.Address, other.Address) })
		if p.Modules > 1 && !overlaps {
			p.Remarks = nil
			chosen[namespace] = append(chosen[namespace], p)
		} else {
			delete(patterns, p.entry())
		}
	}
	for _, m := range modules {
		p := patterns[m.pattern.entry()]
		switch {
		case !m.isCalled:
		case p != nil:
			p.Remarks = append(p.Remarks, m.literal.Remarks...)
		default:
			m.literal.Modules = 1
			all = append(all, m.literal)
		}
	}
	slices.SortFunc(all, compare)
	for _, p := range slices.SortedFunc(maps.Values(patterns), func(a, b *Mapping) int { return compare(*a, *b) }) {
		slices.Sort(p.Remarks)
		p.Remarks = slices.Compact(p.Remarks)
		all = append(all, *p)
	}
	return all
}

func compare(a, b Mapping) int {
	return cmp.Or(strings.Compare(a.Address, b.Address), strings.Compare(a.Source, b.Source),
		strings.Compare(a.Path, b.Path), strings.Compare(a.Tags, b.Tags))
}

// overlap reports whether an address can match both patterns of a namespace, whose names are placeholders.
func overlap(a, b string) bool {
	systemA, systemB := path.Base(a), path.Base(b)
	return systemA == systemB || systemA == systemPlaceholder || systemB == systemPlaceholder
}
