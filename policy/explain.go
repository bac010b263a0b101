package policy

import (
	"context"
	"fmt"
	"strings"

	"github.com/modproxy/modproxy"
)

// Step is what one rule or decision says about a version.
type Step struct {
	Place string `json:"place"` // where a rule stands, or "decision"
	Rule  string `json:"rule"`  // in the words of the configuration
	Says  string `json:"says"`  // "denies it", "is for the groups infra only"
}

// Explain returns the verdict of [Gate.Decide] about a version, and what every rule and decision says that is about its
// module.
func (g *Gate) Explain(ctx context.Context, v modproxy.ModuleVersion) (Verdict, []Step, error) {
	s, err := g.now(ctx)
	if err != nil {
		return Verdict{}, nil, err
	}
	verdict, err := g.decide(ctx, s, v, "")
	if err != nil || v.Version == "" {
		return verdict, nil, err
	}
	version, err := modproxy.ParseVersion(v.Version)
	if err != nil {
		return verdict, nil, err
	}
	var steps []Step
	groups := modproxy.AskerOf(ctx).Groups
	if sel := s.selection(v.Module, groups); sel.reserved != nil {
		steps = append(steps, Step{"reserved", sel.reserved.Namespace, "is for " + strings.Join(sel.reserved.Hosts, ", ")})
	}
	about := s.decisions.about(v.Module).of(version)
	for _, d := range []*modproxy.Decision{about.Block, about.Review, about.Deprecation} {
		if d != nil {
			steps = append(steps, Step{"decision", strings.TrimSpace(string(d.Action) + " " + d.Versions), fmt.Sprintf("by %s: %s", d.By, d.Reason)})
		}
	}
	alone := *s // with one rule at a time
	segments := segmentsOf(v.Module.Folded())
	s.rules.index.find(segments[:], func(rule *Rule) {
		config := s.rules.Config
		config.Rules, config.Reserved = []Rule{*rule}, nil
		one, err := Compile(config)
		if err != nil {
			return // it was compiled already
		}
		alone.rules = one
		steps = append(steps, Step{rule.Place, rule.String(), g.says(ctx, &alone, rule, v, version, groups)})
	})
	for _, l := range s.rules.locked[fold(v)] {
		says := "allows the content " + string(l.sum)
		if !l.rule.isFor(groups) {
			says = "is for " + strings.Join(l.rule.Groups, ", ") + " only"
		}
		steps = append(steps, Step{l.rule.Place, l.rule.String(), says})
	}
	return verdict, steps, nil
}

// says returns what a rule says about a version.
func (g *Gate) says(ctx context.Context, s *state, rule *Rule, v modproxy.ModuleVersion, version modproxy.Version, groups []string) string {
	about := rule.Versions.Selects
	if !rule.Deny.IsZero() {
		about = rule.Versions.Covers
	}
	switch {
	case !rule.isFor(groups):
		return "is for " + strings.Join(rule.Groups, ", ") + " only"
	case !about(version):
		return "is about other versions"
	case !rule.Deny.IsZero():
		return "denies it"
	}
	verdict, err := g.judge(ctx, s, s.rules.For(v.Module, groups))(version, "")
	switch {
	case err != nil:
		return err.Error()
	case verdict.Outcome == TooYoung:
		return "would allow it; it is too young"
	case verdict.Outcome == Unapproved:
		return "would allow it; it waits for approval"
	case verdict.Refused():
		return string(verdict.Outcome)
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
