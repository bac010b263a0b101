package policy

import (
	"cmp"
	"slices"
	"strings"
)

// node is a part of an index of patterns, with one level for each segment of an address. Finding the patterns that
// match an address takes two look-ups on each level, and one for each position in the segment at which a part of a glob
// may be.
type node[T any] struct {
	below  map[string]*node[T]  // by name or glob
	globs  map[string][]glob[T] // the globs with characters besides the star, each by one of the parts between its stars
	sizes  []int                // lengths of these parts
	values []T                  // only at the last level
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

// addGlob adds g under the one of its parts that has the fewest globs, and under the longest of these.
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

// find calls each once for every value whose pattern matches everything that segments match. segments are those of an
// address or of a pattern.
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
				if matches(g.text, s) && strings.Index(s, part) == i { // an earlier position has already found g
					g.node.find(segments[1:], each)
				}
			}
		}
	}
}
