package policy

import (
	"cmp"
	"slices"
	"strings"
)

// node is a part of an index of patterns, which has a level for each segment of an address. To find the patterns that match an
// address takes two look-ups on a level, and one for each place in the segment where a part of a glob may stand.
type node[T any] struct {
	below  map[string]*node[T]  // by name or glob
	globs  map[string][]glob[T] // those with more than a star, each by one of the parts that its stars separate
	sizes  []int                // the lengths of these parts
	values []T                  // at the last level
}

type glob[T any] struct {
	text string
	node *node[T]
}

// add adds a value under the segments of a pattern.
func (n *node[T]) add(segments []string, value T) {
	if len(segments) == 0 {
		n.values = append(n.values, value)
		return
	}
	s := segments[0]
	below := n.below[s]
	if below == nil {
		if n.below == nil {
			n.below, n.globs = map[string]*node[T]{}, map[string][]glob[T]{}
		}
		below = &node[T]{}
		n.below[s] = below
		if s != "*" && strings.Contains(s, "*") {
			n.addGlob(glob[T]{s, below})
		}
	}
	below.add(segments[1:], value)
}

// addGlob adds g by the part that the fewest others are found by, the longest of several.
func (n *node[T]) addGlob(g glob[T]) {
	parts := slices.DeleteFunc(strings.Split(g.text, "*"), func(part string) bool { return part == "" })
	part := slices.MinFunc(parts, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(n.globs[a]), len(n.globs[b])), cmp.Compare(len(b), len(a)))
	})
	n.globs[part] = append(n.globs[part], g)
	if !slices.Contains(n.sizes, len(part)) {
		n.sizes = append(n.sizes, len(part))
	}
}

// find calls each once with every value whose pattern matches all that segments match: those of an address, or those of a
// pattern.
func (n *node[T]) find(segments []string, each func(T)) {
	if len(segments) == 0 {
		for _, value := range n.values {
			each(value)
		}
		return
	}
	s := segments[0]
	if below := n.below[s]; below != nil && !strings.Contains(s, "*") { // the System of a provider is empty
		below.find(segments[1:], each)
	}
	if s == "" {
		return
	}
	if below := n.below["*"]; below != nil {
		below.find(segments[1:], each)
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
