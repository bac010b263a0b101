package policy

import (
	"cmp"
	"slices"
	"strings"
)

// node is a part of the index of rules, which has a level for each segment of an address. To find the rules for an address
// takes two look-ups on a level, and one for each place in the segment where a part of a glob may stand.
type node struct {
	below map[string]*node  // by name or glob
	globs map[string][]glob // those with more than a star, each by one of the parts that its stars separate
	sizes []int             // the lengths of these parts
	rules []*Rule           // at the last level
}

type glob struct {
	text string
	node *node
}

func (n *node) add(segments []string, rule *Rule) {
	if len(segments) == 0 {
		n.rules = append(n.rules, rule)
		return
	}
	s := segments[0]
	below := n.below[s]
	if below == nil {
		if n.below == nil {
			n.below, n.globs = map[string]*node{}, map[string][]glob{}
		}
		below = &node{}
		n.below[s] = below
		if s != "*" && strings.Contains(s, "*") {
			n.addGlob(glob{s, below})
		}
	}
	below.add(segments[1:], rule)
}

// addGlob adds g by the part that the fewest others are found by, the longest of several.
func (n *node) addGlob(g glob) {
	parts := slices.DeleteFunc(strings.Split(g.text, "*"), func(part string) bool { return part == "" })
	part := slices.MinFunc(parts, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(n.globs[a]), len(n.globs[b])), cmp.Compare(len(b), len(a)))
	})
	n.globs[part] = append(n.globs[part], g)
	if !slices.Contains(n.sizes, len(part)) {
		n.sizes = append(n.sizes, len(part))
	}
}

// find calls each with the rules for an address, once with each.
func (n *node) find(segments []string, each func(*Rule)) {
	if len(segments) == 0 {
		for _, rule := range n.rules {
			each(rule)
		}
		return
	}
	s := segments[0]
	if s == "" { // of a provider
		if below := n.below[""]; below != nil {
			below.find(segments[1:], each)
		}
		return
	}
	for _, key := range [...]string{s, "*"} { // no name has a star
		if below := n.below[key]; below != nil {
			below.find(segments[1:], each)
		}
	}
	for _, size := range n.sizes {
		for i := range len(s) - size + 1 {
			part := s[i : i+size]
			for _, g := range n.globs[part] {
				if matches(g.text, s) && strings.Index(s, part) == i { // else it was found before
					g.node.find(segments[1:], each)
				}
			}
		}
	}
}
