package policy

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// Remarks returns notes for the operator who makes a decision, one clause each: decisions that no longer count
// afterwards, and reasons why the decision has no effect for any client. The decision may, but need not, be recorded
// already.
func (g *Gate) Remarks(ctx context.Context, d modproxy.Decision) (remarks []string, err error) {
	s, err := g.now(ctx)
	if err != nil {
		return nil, err
	}
	made := newStanding(&d)
	say := func(format string, args ...any) { remarks = append(remarks, fmt.Sprintf(format, args...)) }
	switch d.Action {
	case modproxy.Approve:
		s.remarkOnApproval(made, say)
	case modproxy.Unblock, modproxy.Deprecate:
		for _, other := range s.decisions.overlapping(d.Address, d.Action) {
			switch {
			case !Ends(d) || !made.within(other):
			case other.key != made.key:
				say("another decision stays in force: %s", other.inWords(d))
			case !contains(d.Address.Folded(), other.Address.Folded()):
				say("for other addresses a decision stays in force: %s", other.inWords(d))
			}
		}
	case modproxy.Reject, modproxy.Block:
	}
	if d.Action == modproxy.Approve || d.Action == modproxy.Reject {
		for _, other := range s.decisions.overlapping(d.Address, d.Action) {
			if other.Action != d.Action && (made.within(other) || made.rejectsBuild(other)) && !ended(other.Decision, time.Now()) {
				say("an earlier decision no longer counts: %s", other.inWords(d))
			}
		}
	}
	if s.rules.Audit && (d.Action == modproxy.Block || d.Action == modproxy.Reject) {
		say("nothing is refused, because policy.mode is audit: refusals are only logged and counted")
	}
	return remarks, nil
}

func (s *state) remarkOnApproval(made standing, say func(string, ...any)) {
	m := made.Address.Folded()
	if reserve := s.rules.reserved(m.Host, m.Namespace); reserve != nil && !strings.Contains(m.Host, "*") {
		say("it stays refused: the namespace %s is reserved for a private registry", reserve.Namespace)
	}
	for _, block := range s.decisions.overlapping(m, modproxy.Block) {
		if made.within(block) {
			say("it stays refused: %s", block.inWords(*made.Decision))
		}
	}
	allowed, waits := s.rules.locked[fold(made.Address.At(""))] != nil, false
	for i := range s.rules.Rules {
		rule := &s.rules.Rules[i]
		pattern := rule.pattern().Module()
		switch {
		case rule.Locked != nil || !overlap(pattern, m):
		case rule.Deny.IsZero() && (made.exact == nil || rule.Versions.Allows(*made.exact)):
			allowed, waits = true, waits || rule.Approval || rule.MinAge > 0
		case !rule.Deny.IsZero() && len(rule.Groups) == 0 && made.covered(rule.Versions):
			say("it stays refused: %s denies %s%s", rule.Place, rule.Deny, versionsOf(rule))
		}
	}
	switch {
	case !s.rules.DefaultDeny:
		say("it makes no difference: policy.default is allow")
	case !allowed:
		say("it stays refused: no rule allows it")
	case !waits:
		say("it makes no difference: no rule that allows it requires an approval or a minimum age")
	}
}

// within reports whether other is certainly about every version that s is about.
func (s standing) within(other standing) bool {
	if other.Action == modproxy.Approve {
		return other.key == s.key || s.exact != nil && other.versions.Allows(*s.exact)
	}
	return other.key == s.key || s.covered(other.versions)
}

// rejectsBuild reports whether s rejects all builds of a version, and other approves one of them.
func (s standing) rejectsBuild(other standing) bool {
	return s.exact != nil && other.exact != nil && s.Action == modproxy.Reject && s.exact.Rank() == other.exact.Rank()
}

// covered reports whether a constraint certainly covers every version that s is about.
func (s standing) covered(c modproxy.Constraint) bool {
	return c.IsZero() || s.exact != nil && c.Covers(*s.exact)
}

// inWords describes the decision on one line. It names the address if that differs from the address of d.
func (s standing) inWords(d modproxy.Decision) string {
	what := cmp.Or(s.Versions, "every version")
	if s.Address.Folded() != d.Address.Folded() {
		what = strings.TrimSpace(s.Address.String() + " " + s.Versions)
	}
	text := fmt.Sprintf("%s of %s by %s on %s", s.Action, what, s.By, day(s.Time))
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}
