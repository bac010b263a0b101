package policy

import "github.com/modproxy/modproxy"

// Find returns the rules in the index that match a module.
func (r *Rules) Find(m modproxy.Address) (found []*Rule) {
	segments := segmentsOf(m)
	r.index.find(segments[:], func(rule *Rule) { found = append(found, rule) })
	return found
}

// Matches is matches.
func Matches(glob, s string) bool { return matches(glob, s) }
