package policy

import (
	"slices"
	"time"

	"github.com/modproxy/modproxy"
)

// Conditions are those of a rule that allows.
type Conditions struct {
	Groups   []string      `json:"groups,omitempty"`
	MinAge   time.Duration `json:"min_age,omitempty"`
	Approval bool          `json:"approval,omitempty"`
}

// ConditionsOf returns the conditions of each rule that allows a version, each once, for whatever client. It is empty if one of
// these rules has no condition, if a lock file lists the version, or if there is no such rule.
func (r *Rules) ConditionsOf(v modproxy.ModuleVersion) (all []Conditions) {
	v, _ = v.Origin()
	version, err := modproxy.ParseVersion(v.Version)
	if err != nil || len(r.locked[fold(v)]) > 0 {
		return nil
	}
	for _, rule := range r.forAnybody(v.Module).allow {
		if !rule.Versions.Allows(version) {
			continue
		}
		c := Conditions{rule.Groups, rule.MinAge, rule.Approval}
		if len(c.Groups) == 0 && c.MinAge == 0 && !c.Approval {
			return nil
		}
		same := func(o Conditions) bool {
			return slices.Equal(o.Groups, c.Groups) && o.MinAge == c.MinAge && o.Approval == c.Approval
		}
		if !slices.ContainsFunc(all, same) {
			all = append(all, c)
		}
	}
	return all
}
