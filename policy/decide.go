package policy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// Selection is the part of the rules that applies to one module and one client. It is safe for concurrent use.
type Selection struct {
	rules    *Rules
	module   modproxy.Address
	reserved *Reserve // denies the module
	deny     []*Rule
	allow    []*Rule
	locked   bool   // a lock file may list a version for the client
	allowed  string // the versions that rules allow, in words
	groups   []string
	anybody  bool // the client has every group of an allow rule, and no group of a deny rule
}

// For returns the rules for a module and a client.
func (r *Rules) For(m modproxy.Address, groups []string) *Selection {
	return (&Selection{rules: r, module: m, groups: groups}).find()
}

// forAnybody returns the rules for a module and a client that may use the most versions of it.
func (r *Rules) forAnybody(m modproxy.Address) *Selection {
	return (&Selection{rules: r, module: m, anybody: true}).find()
}

// find fills the selection with its rules.
func (s *Selection) find() *Selection {
	r := s.rules
	s.locked = s.lists()
	s.reserved = r.reserved(s.module.Host, s.module.Namespace)
	segments := segmentsOf(s.module.Folded())
	r.index.find(segments[:], func(rule *Rule) {
		switch {
		case !s.concerns(rule):
		case rule.Deny.IsZero():
			s.allow = append(s.allow, rule)
		default:
			s.deny = append(s.deny, rule)
		}
	})
	s.allowed = s.allowedVersions()
	return s
}

// maxAllows is the number of constraints and versions that a refusal names.
const maxAllows = 3

// allowedVersions returns the versions that rules allow, in words.
func (s *Selection) allowedVersions() string {
	var list []string
	add := func(text string) {
		if len(list) <= maxAllows && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	for _, rule := range s.allow {
		if rule.Versions.IsZero() {
			return ""
		}
		add(rule.Versions.String())
	}
	if s.locked {
		for _, l := range s.rules.lockedVersions[s.module.Folded()] {
			if s.concerns(l.rule) {
				add(l.version)
			}
		}
	}
	if len(list) > maxAllows {
		list[maxAllows] = "others"
	}
	return strings.Join(list, " or ")
}

// concerns reports whether a rule applies to the client.
func (s *Selection) concerns(rule *Rule) bool {
	if s.anybody {
		return rule.Deny.IsZero() || len(rule.Groups) == 0
	}
	return rule.isFor(s.groups)
}

// isFor reports whether a rule applies to a client with these groups.
func (r *Rule) isFor(groups []string) bool {
	return len(r.Groups) == 0 || slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(r.Groups, g) })
}

// needsAge reports whether the verdict may depend on the age of a version.
func (s *Selection) needsAge() bool {
	return slices.ContainsFunc(s.allow, func(r *Rule) bool { return r.MinAge > 0 })
}

// Module returns the verdict about a module if its version is unknown. It denies the module if every version is denied.
func (s *Selection) Module() Verdict {
	if s.reserved != nil {
		return s.reserved.verdict()
	}
	for _, rule := range s.deny {
		if rule.Versions.String() == "" {
			return Verdict{Outcome: Denied, Rule: rule}
		}
	}
	if s.rules.DefaultDeny && len(s.allow) == 0 && !s.locked {
		return Verdict{Outcome: NotAllowed}
	}
	return Verdict{Outcome: Allowed}
}

// namespace returns the verdict about all modules of a namespace. It denies the namespace if every possible module in
// it is denied.
func (r *Rules) namespace(host, namespace string, groups []string) Verdict {
	if reserve := r.reserved(host, namespace); reserve != nil {
		return reserve.verdict()
	}
	host, namespace = strings.ToLower(host), strings.ToLower(namespace)
	allowed := !r.DefaultDeny
	for i := range r.Rules {
		rule := &r.Rules[i]
		p := rule.pattern()
		switch {
		case rule.Locked != nil:
			allowed = allowed || slices.ContainsFunc(rule.Locked, func(l Locked) bool {
				of := l.Address.Folded()
				return of.Host == host && of.Namespace == namespace && of.IsModule()
			}) && rule.isFor(groups)
		case p.IsOfProviders(), !rule.isFor(groups), !matches(p.segments[0], host), !matches(p.segments[1], namespace):
		case rule.Deny.IsZero():
			allowed = true
		case p.segments[2] == "*" && p.segments[3] == "*" && rule.Versions.String() == "":
			return Verdict{Outcome: Denied, Rule: rule}
		}
	}
	if !allowed {
		return Verdict{Outcome: NotAllowed}
	}
	return Verdict{Outcome: Allowed}
}

// lists reports whether a lock file lists a version of the module for the client.
func (s *Selection) lists() bool {
	by := s.rules.locked[fold(s.module.At(""))]
	return slices.ContainsFunc(by, func(l lockedBy) bool { return s.concerns(l.rule) })
}

// Decide returns the verdict about a version. decided are the decisions that are in force for it.
func (s *Selection) Decide(v modproxy.Version, facts VersionFacts, decided Decided, now time.Time) Verdict {
	switch {
	case s.reserved != nil:
		return s.reserved.verdict()
	case decided.Block != nil:
		return Verdict{Outcome: Blocked, Decision: decided.Block}
	case decided.Review != nil && decided.Review.Action == modproxy.Reject:
		return Verdict{Outcome: Rejected, Decision: decided.Review}
	}
	for _, rule := range s.deny {
		if rule.Versions.Covers(v) {
			return Verdict{Outcome: Denied, Rule: rule}
		}
	}
	if !s.rules.DefaultDeny {
		return Verdict{Outcome: Allowed}
	}
	approved := decided.Review
	if approved != nil && ended(approved, now) {
		approved = nil
	}
	best := Verdict{Outcome: NotAllowed, Allows: s.allowed}
	for _, rule := range s.allow {
		if rule.Versions.Allows(v) {
			best = better(best, s.allows(rule, facts, approved, now))
		}
	}
	if s.locked {
		best = better(best, s.allowsLocked(v, facts.Sum))
	}
	return best
}

func ended(d *modproxy.Decision, now time.Time) bool { return !d.Until.IsZero() && !d.Until.After(now) }

// allows returns the verdict of one rule whose constraint allows the version.
func (s *Selection) allows(rule *Rule, facts VersionFacts, approved *modproxy.Decision, now time.Time) Verdict {
	if approved != nil {
		return Verdict{Outcome: Allowed, Rule: rule, Decision: approved, Until: approved.Until}
	}
	verdict := Verdict{Outcome: Allowed, Rule: rule}
	if rule.MinAge > 0 {
		old := facts.Since.Add(rule.MinAge)
		switch {
		case facts.Since.IsZero() && s.rules.FirstAllow && !facts.ModuleSeen.IsZero():
		case facts.Since.IsZero() && facts.ModuleSeen.IsZero(): // the module has no first-seen time either
			verdict = Verdict{Outcome: TooYoung, Rule: rule}
		case facts.Since.IsZero():
			if old = facts.ModuleSeen.Add(rule.MinAge); now.Before(old) {
				verdict = Verdict{Outcome: TooYoung, Rule: rule, Until: old}
			}
		case now.Before(old):
			verdict = Verdict{Outcome: TooYoung, Rule: rule, Until: old}
		}
	}
	if rule.Approval && !verdict.Refused() {
		return Verdict{Outcome: Unapproved, Rule: rule}
	}
	return verdict
}

// allowsLocked returns the verdict of the lock files. A version with unknown content is allowed: it is judged again
// when its content is known.
func (s *Selection) allowsLocked(v modproxy.Version, sum modproxy.Sum) Verdict {
	verdict := Verdict{Outcome: NotAllowed, Allows: s.allowed}
	for _, l := range s.rules.locked[fold(s.module.At(v.String()))] {
		switch {
		case !s.concerns(l.rule):
		case sum == "" || sum == l.sum:
			return Verdict{Outcome: Allowed, Rule: l.rule}
		default:
			verdict = Verdict{Outcome: NotLocked, Rule: l.rule}
		}
	}
	return verdict
}

// order lists the outcomes that can follow from allow rules, most permissive first. If several rules refuse a version,
// the refusal names the one that is nearest to allowing it.
var order = []Outcome{Allowed, TooYoung, Unapproved, NotLocked, NotAllowed}

// better returns the more permissive of two verdicts.
func better(a, b Verdict) Verdict {
	c := cmp.Compare(slices.Index(order, a.Outcome), slices.Index(order, b.Outcome))
	if c == 0 && a.Outcome == TooYoung {
		c = a.Until.Compare(b.Until)
		if a.Until.IsZero() != b.Until.IsZero() {
			c = -c // an unknown time is later than any known time
		}
		if a.Rule.Approval != b.Rule.Approval {
			c = -1 // the version is allowed at that time, without an approval
			if a.Rule.Approval {
				c = 1
			}
		}
	}
	if c > 0 {
		return b
	}
	return a
}
