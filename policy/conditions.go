package policy

import (
	"slices"
	"time"

	"github.com/modproxy/modproxy"
)

// Conditions are the conditions of a rule that allows versions.
type Conditions struct {
	Groups    []string      `json:"groups,omitempty"`
	MinAge    time.Duration `json:"min_age,omitempty"`
	Approval  bool          `json:"approval,omitempty"`
	LockFiles []string      `json:"lock_files,omitempty"` // as in [Rule]: the rule allows only versions that these files list
}

func (c Conditions) isZero() bool {
	return len(c.Groups) == 0 && c.MinAge == 0 && !c.Approval && len(c.LockFiles) == 0
}

func (c Conditions) equal(o Conditions) bool {
	return slices.Equal(c.Groups, o.Groups) && c.MinAge == o.MinAge && c.Approval == o.Approval && slices.Equal(c.LockFiles, o.LockFiles)
}

// ConditionsOf returns the conditions of each rule that allows a version, for any client, without duplicates. It
// ignores the content of the version. ConditionsOf returns nil if one of these rules has no condition, or if no rule
// allows the version.
func (r *Rules) ConditionsOf(v modproxy.Ref) (all []Conditions) {
	v = v.Base()
	version, err := modproxy.ParseVersion(v.Version)
	if err != nil {
		return nil
	}
	var rules []*Rule
	for _, rule := range r.forAnybody(v.Address).allow {
		if rule.Versions.Allows(version) {
			rules = append(rules, rule)
		}
	}
	for _, l := range r.locked[fold(v)] {
		rules = append(rules, l.rule)
	}
	for _, rule := range rules {
		c := Conditions{rule.Groups, rule.MinAge, rule.Approval, rule.LockFiles}
		if c.isZero() {
			return nil
		}
		if !slices.ContainsFunc(all, c.equal) {
			all = append(all, c)
		}
	}
	return all
}

// DistinguishVersions reports whether some rules are about single versions of m, so that a rule about all versions may
// allow more.
func (r *Rules) DistinguishVersions(m modproxy.Address) bool {
	s := r.forAnybody(m)
	some := func(rule *Rule) bool { return !rule.Versions.IsZero() }
	if slices.ContainsFunc(s.deny, some) {
		return true
	}
	plain := func(rule *Rule) bool {
		return !some(rule) && Conditions{rule.Groups, rule.MinAge, rule.Approval, nil}.isZero()
	}
	return !slices.ContainsFunc(s.allow, plain) && (s.locked || slices.ContainsFunc(s.allow, some))
}
