package policy

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// Step is the result of one rule or decision for a version.
type Step struct {
	Place   string  `json:"place"`             // position of a rule in its file, or "decision"
	Rule    string  `json:"rule"`              // in the words of the configuration
	Outcome Outcome `json:"outcome,omitempty"` // of this step alone; empty if it has no effect
	Says    string  `json:"says"`              // such as "denies it" or "is for infra only"
}

// Explain returns the verdict of [Gate.Decide], and the result of every rule and decision about the module. Decisions
// and reserved namespaces, which come before the rules, are first. The rules follow in their order.
func (g *Gate) Explain(ctx context.Context, v modproxy.Ref) (Verdict, []Step, error) {
	s, err := g.now(ctx)
	if err != nil {
		return Verdict{}, nil, err
	}
	v = v.Base()
	sel := s.selection(v.Address, modproxy.ClientOf(ctx).Groups)
	if v.Version == "" {
		verdict, err := g.decideIn(ctx, s, sel, v, "", g.FirstSeen)
		return verdict, s.explainModule(sel), err
	}
	version, err := modproxy.ParseVersion(v.Version)
	if err != nil {
		return Verdict{}, nil, err
	}
	e := g.newEvaluator(ctx, s, sel, g.FirstSeen)
	e.version = v.Version
	verdict, err := e.verdict(version, "")
	var facts VersionFacts
	if err == nil && !sel.Module().Refused() { // for a denied module, no registry may be asked
		facts, err = e.facts(version, "")
	}
	if err != nil {
		return verdict, nil, err
	}
	return verdict, e.explain(version, facts), nil
}

// explain returns the steps for a version.
func (e *evaluator) explain(v modproxy.Version, facts VersionFacts) []Step {
	steps, decided := e.explainReserved(), e.decided.of(v)
	approved := decided.Review
	for _, d := range []*modproxy.Decision{decided.Block, decided.Review, decided.Deprecation} {
		if d == nil {
			continue
		}
		step := stepOf(d)
		if d == approved && ended(d, e.now) {
			approved, step.Says = nil, "ended: "+step.Says
		}
		steps = append(steps, step)
	}
	locks := e.rules.locked[fold(e.module.At(v.String()))]
	rules := e.about()
	before := len(steps)
	for i := range e.rules.Rules {
		rule := &e.rules.Rules[i]
		if rule.Locked == nil && !rules[rule] {
			continue
		}
		step := Step{Place: rule.Place, Rule: rule.String()}
		switch {
		case rule.Locked != nil:
			if step = e.explainLocked(step, rule, locks, facts.Sum); step.Says == "" {
				continue
			}
		case !rule.isFor(e.groups):
			step.Says = forOthers(rule)
		case !rule.Deny.IsZero() && rule.Versions.Covers(v):
			step.Outcome, step.Says = Denied, "denies it"
		case !rule.Deny.IsZero() || !rule.Versions.Allows(v):
			step.Says = "is about other versions"
		default:
			verdict := e.allows(rule, facts, approved, e.now)
			step.Outcome, step.Says = verdict.Outcome, says(verdict)
		}
		steps = append(steps, step)
	}
	return append(steps, e.explainDefault(steps[before:])...)
}

// explainModule returns the steps for a module if its version is unknown.
func (s *state) explainModule(sel *Selection) []Step {
	steps := sel.explainReserved()
	if block := s.decisions.about(sel.module).blocked(); block != nil {
		steps = append(steps, stepOf(block))
	}
	rules := sel.about()
	before := len(steps)
	for i := range sel.rules.Rules {
		rule := &sel.rules.Rules[i]
		if rule.Locked == nil && !rules[rule] {
			continue
		}
		step := Step{Place: rule.Place, Rule: rule.String()}
		switch {
		case rule.Locked != nil:
			if step = sel.explainLocked(step, rule, sel.rules.locked[fold(sel.module.At(""))], ""); step.Says == "" {
				continue
			}
		case !rule.isFor(sel.groups):
			step.Says = forOthers(rule)
		case rule.Deny.IsZero():
			step.Outcome, step.Says = Allowed, "can allow versions"
		case rule.Versions.String() != "":
			step.Says = "denies versions"
		default:
			step.Outcome, step.Says = Denied, "denies it"
		}
		steps = append(steps, step)
	}
	return append(steps, sel.explainDefault(steps[before:])...)
}

// about returns the rules with a pattern that matches the module, also the rules for other clients.
func (s *Selection) about() map[*Rule]bool {
	found := map[*Rule]bool{}
	segments := segmentsOf(s.module.Folded())
	s.rules.index.find(segments[:], func(rule *Rule) { found[rule] = true })
	return found
}

func (s *Selection) explainReserved() []Step {
	if s.reserved == nil {
		return nil
	}
	hosts := cmp.Or(strings.Join(s.reserved.Hosts, ", "), "none of the registries")
	return []Step{{cmp.Or(s.reserved.Place, "policy.reserved"), s.reserved.Namespace, Reserved, "is for " + hosts}}
}

// explainLocked returns the step for the lock files of a rule. locks are the entries about the module or version. Says
// is empty if no entry is from these lock files.
func (s *Selection) explainLocked(step Step, rule *Rule, locks []lockedBy, sum modproxy.Sum) Step {
	for _, l := range locks {
		switch {
		case l.rule != rule || step.Outcome == Allowed:
		case !rule.isFor(s.groups):
			step.Says = forOthers(rule)
		case l.sum == "":
			step.Outcome, step.Says = Allowed, "can allow versions"
		case sum == "" || sum == l.sum:
			step.Outcome, step.Says = Allowed, "allows it with the content "+string(l.sum)
		default:
			step.Outcome, step.Says = NotLocked, fmt.Sprintf("requires the content %s; it has %s", l.sum, sum)
		}
	}
	return step
}

// explainDefault returns the step for the default, if no rule has an effect.
func (s *Selection) explainDefault(rules []Step) []Step {
	for _, step := range rules {
		if step.Outcome != "" {
			return nil
		}
	}
	if s.rules.DefaultDeny {
		return []Step{{"policy.default", "deny", NotAllowed, "denies it: no rule allows it"}}
	}
	return []Step{{"policy.default", "allow", Allowed, "allows it"}}
}

func stepOf(d *modproxy.Decision) Step {
	outcome := map[modproxy.Action]Outcome{modproxy.Block: Blocked, modproxy.Reject: Rejected}[d.Action]
	says := "by " + d.By
	if !d.Until.IsZero() {
		says += " until " + day(d.Until)
	}
	if d.Reason != "" {
		says += ": " + d.Reason
	}
	rule := string(d.Action)
	if d.IsGlob() {
		rule += " " + d.Address.String()
	}
	return Step{"decision", strings.TrimSpace(rule + " " + d.Versions), outcome, says}
}

func forOthers(r *Rule) string { return "is for " + strings.Join(r.Groups, ", ") + " only" }

// says describes the verdict of an allow rule.
func says(v Verdict) string {
	switch v.Outcome {
	case TooYoung:
		text := "would allow it when it has been listed for " + inDays(v.Rule.MinAge)
		if !v.Until.IsZero() {
			text += ", from " + day(v.Until.Add(time.Minute-1)) + " on"
		}
		return text
	case Unapproved:
		return "would allow it when it is approved"
	case Allowed, Denied, NotAllowed, Rejected, Blocked, Reserved, NotLocked:
	}
	if v.Decision != nil {
		return "allows it: it is approved"
	}
	return "allows it"
}

// String returns the rule in the words of the configuration.
func (r *Rule) String() string {
	text := "allow " + r.Allow.String()
	switch {
	case r.Locked != nil:
		text = "allow_locked"
	case !r.Deny.IsZero():
		text = "deny " + r.Deny.String()
	}
	return text + versionsOf(r)
}
