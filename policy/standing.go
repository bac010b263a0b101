package policy

import (
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
)

// kept contains the last decision of one kind for each set of versions, also those that only end other decisions.
type kept struct {
	exact  map[string]standing // decisions about one version, by standing.key
	ranges map[string]standing // other decisions, by the canonical spelling of their versions
}

// standing is a decision that no later decision about the same address and versions has replaced.
type standing struct {
	*modproxy.Decision
	versions modproxy.Constraint
	exact    *modproxy.Version // set if the decision is about one version
	// key is the canonical spelling of the versions, as used in kept. For one version it is the [modproxy.Version.Rank]
	// if the decision is about all its builds, and the [modproxy.Version.Build] for an approval, which is about the
	// build that it names.
	key    string
	number int // its position among all decisions
}

func newStanding(d *modproxy.Decision) standing {
	s := standing{Decision: d}
	if d.Versions != "" {
		s.versions, _ = modproxy.ParseConstraint(d.Versions) // the ledger has checked the constraint
		s.key = CanonicalVersions(d.Action, s.versions)
		if v, err := modproxy.ParseVersion(s.key); err == nil {
			s.exact, s.key = &v, v.Rank()
			if d.Action == modproxy.Approve {
				s.key = v.Build()
			}
		} else if d.Action == modproxy.Approve && namesVersion(s.key) {
			s.key = "approve " + s.key // it is about fewer builds than a rejection in the same words
		}
	}
	return s
}

// namesVersion reports whether a canonical constraint has a term that selects one version.
func namesVersion(canonical string) bool {
	return slices.ContainsFunc(strings.Split(canonical, ", "), func(t string) bool { return !strings.ContainsAny(t[:1], "<>~!") })
}

// CanonicalVersions returns the canonical spelling of the versions that a decision is about. An approval of one version
// is about the build that it names. Every other decision is about all builds of the version.
func CanonicalVersions(a modproxy.Action, c modproxy.Constraint) string {
	if a == modproxy.Approve {
		return c.CanonicalAllow()
	}
	return c.CanonicalDeny()
}

// about reports whether the decision is about a version.
func (s standing) about(v modproxy.Version) bool {
	if s.Action == modproxy.Approve {
		return s.versions.Allows(v)
	}
	return s.versions.Covers(v)
}

// list returns the map that contains decisions like s.
func (k *kept) list(s standing) *map[string]standing {
	if s.exact != nil {
		return &k.exact
	}
	return &k.ranges
}

// put adds s, unless a later decision is about the same versions.
func (k *kept) put(s standing) {
	list := k.list(s)
	if (*list)[s.key].number > s.number {
		return
	}
	if *list == nil {
		*list = map[string]standing{}
	}
	(*list)[s.key] = s
}

// get returns the last decision about all versions of s, or the zero standing.
func (k *kept) get(s standing) standing {
	last := (*k.list(s))[s.key]
	if k.replaced(s.numbered(last.number)) {
		last = k.exact[s.exact.Rank()]
	}
	return last
}

func (s standing) numbered(number int) standing {
	s.number = number
	return s
}

// opposed reports whether a decision made after number may approve versions that s rejects, or reject versions that s
// approves.
func (k *kept) opposed(s standing, number int) bool {
	for _, other := range k.all() {
		if other.number > number && other.Action != s.Action && !s.apart(other) {
			return true
		}
	}
	return false
}

// apart reports whether certainly no version is covered by both decisions.
func (s standing) apart(other standing) bool {
	switch {
	case s.exact != nil && other.exact != nil:
		return !s.versions.Covers(*other.exact) && !other.versions.Covers(*s.exact)
	case s.exact != nil:
		return !other.versions.Covers(*s.exact)
	case other.exact != nil:
		return !s.versions.Covers(*other.exact)
	}
	return false
}

// all returns every decision that does not only end others, in the order in which they were made.
func (k *kept) all() []standing {
	return slices.SortedFunc(func(yield func(standing) bool) {
		for _, list := range []map[string]standing{k.exact, k.ranges} {
			for _, s := range list {
				if !Ends(*s.Decision) && !k.replaced(s) && !yield(s) {
					return
				}
			}
		}
	}, inOrder)
}

// replaced reports whether s approves one build of a version whose builds were all rejected later.
func (k *kept) replaced(s standing) bool {
	return s.exact != nil && k.exact[s.exact.Rank()].number > s.number
}

func inOrder(a, b standing) int { return a.number - b.number }

// of returns the last decision about a version. keys are the keys of the version in kept.
func (k *kept) of(v modproxy.Version, keys []string) *modproxy.Decision {
	var last standing
	see := func(s standing, ok bool) {
		if ok && s.number > last.number && !Ends(*s.Decision) && s.about(v) {
			last = s
		}
	}
	for _, key := range keys {
		s, ok := k.exact[key]
		see(s, ok)
	}
	for _, s := range k.ranges {
		see(s, true)
	}
	return last.Decision
}
