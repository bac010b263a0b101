package policy

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/modproxy/modproxy"
)

// Remarks returns what whoever makes a decision should know, a clause each: what no longer counts then, and what keeps
// the decision from having an effect, for any client. The decision need not be made.
func (g *Gate) Remarks(ctx context.Context, d modproxy.Decision) (remarks []string, err error) {
	s, err := g.now(ctx)
	if err != nil {
		return nil, err
	}
	made, decided := newStanding(&d), s.decisions.about(d.Module)
	say := func(format string, args ...any) { remarks = append(remarks, fmt.Sprintf(format, args...)) }
	switch d.Action {
	case modproxy.Approve:
		s.remarkOnApproval(made, decided, say)
	case modproxy.Unblock, modproxy.Deprecate:
		for _, other := range decided.kind(d.Action).all() {
			if Ends(d) && other.key != made.key && made.within(other) {
				say("another decision stays in force: %s", inWords(other.Decision))
			}
		}
	}
	if d.Action == modproxy.Approve || d.Action == modproxy.Reject {
		for _, other := range decided.reviews.all() {
			if other.Action != d.Action && made.within(other) && !ended(other.Decision, time.Now()) {
				say("an earlier decision no longer counts: %s", inWords(other.Decision))
			}
		}
	}
	if s.rules.Audit && (d.Action == modproxy.Block || d.Action == modproxy.Reject) {
		say("nothing is refused, because policy.mode is audit: what would be is logged and counted")
	}
	return remarks, nil
}

func (s *state) remarkOnApproval(made standing, decided *moduleDecisions, say func(string, ...any)) {
	sel := s.rules.For(made.Module, nil)
	if sel.reserved != nil {
		say("it stays refused: the namespace %s is reserved for a private registry", sel.reserved.Namespace)
	}
	for _, block := range decided.blocks.all() {
		if made.within(block) {
			say("it stays refused: %s", inWords(block.Decision))
		}
	}
	allowed, waits := sel.rules.locked[fold(made.Module.At(""))] != nil, false
	for rule := range sel.about() {
		switch {
		case rule.Deny.IsZero() && (made.exact == nil || rule.Versions.Selects(*made.exact)):
			allowed, waits = true, waits || rule.Approval || rule.MinAge > 0
		case !rule.Deny.IsZero() && len(rule.Groups) == 0 && made.covered(rule.Versions):
			say("it stays refused: %s denies %s%s", rule.Place, rule.Deny, versionsOf(rule))
		}
	}
	switch {
	case !s.rules.DefaultDeny:
		say("it makes no difference: what nothing denies is allowed")
	case !allowed:
		say("it stays refused: no rule allows it")
	case !waits:
		say("it makes no difference: no rule that allows it wants approval, or a minimum age")
	}
}

// within reports whether it is certain that other is about every version that s is about.
func (s standing) within(other standing) bool {
	if other.Action == modproxy.Approve {
		return other.key == s.key || s.exact != nil && other.versions.Selects(*s.exact)
	}
	return other.key == s.key || s.covered(other.versions)
}

// covered reports whether it is certain that a constraint covers every version that s is about.
func (s standing) covered(c modproxy.Constraint) bool {
	return c.IsZero() || s.exact != nil && c.Covers(*s.exact)
}

// inWords is a decision on one line.
func inWords(d *modproxy.Decision) string {
	text := fmt.Sprintf("%s of %s by %s on %s", d.Action, cmp.Or(d.Versions, "every version"), d.By, day(d.Time))
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}
