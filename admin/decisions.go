package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/policy"
)

// A Decision is a decision in the ledger, and whether it is in force.
type Decision struct {
	versionname.Name
	modproxy.Decision
	InForce bool `json:"in_force"`
	// EndsSoon is set if the decision is in force and ends within [EndsSoonPeriod].
	EndsSoon bool `json:"ends_soon,omitempty"`
}

// EndsSoonPeriod is how long before the end of an approval lists begin to show that it ends.
const EndsSoonPeriod = 14 * 24 * time.Hour

// decisions lists the decisions about a module, about the modules that a glob matches, or about all modules. It lists them in the
// order in which they were made.
func (s *Server) decisions(ctx context.Context, in versionname.Name, each func(Decision)) (done none, err error) {
	var wanted modproxy.Address
	if in != (versionname.Name{}) {
		if wanted, err = policy.ParseAddress(in.Module, ""); err != nil {
			return done, err
		}
	}
	list, _, err := s.Ledger.Decisions(ctx, 0)
	if err != nil {
		return done, err
	}
	now := time.Now()
	for i, stands := range policy.InForce(list, now) {
		if d := list[i]; in == (versionname.Name{}) || policy.IsAbout(d, wanted) {
			soon := stands && !d.Until.IsZero() && d.Until.Before(now.Add(EndsSoonPeriod))
			each(Decision{versionname.Of(d.Address.At("")), d, stands, soon})
		}
	}
	return done, nil
}

// DecisionRequest is a decision to make.
type DecisionRequest struct {
	Module   string          `json:"module"` // an address, or a glob as in the rules of the policy
	Action   modproxy.Action `json:"action"`
	Versions string          `json:"versions,omitempty"` // a version or a constraint; empty for every version
	Reason   string          `json:"reason,omitempty"`
	Link     string          `json:"link,omitempty"`
	Until    time.Time       `json:"until,omitzero"`
	User     string          `json:"user,omitempty"`  // the name of the user, if the caller is the owner of the data directory
	Force    bool            `json:"force,omitempty"` // skip the check that the module and the version exist
}

// A DecisionResult is the decision that is in the ledger after the request.
type DecisionResult struct {
	Decision
	Known   bool     `json:"known,omitempty"`   // the same decision existed before; By and Time are those of the existing one
	Remarks []string `json:"remarks,omitempty"` // notes for the operator, one sentence each
}

// decide makes a decision. The decision is in force when decide returns.
func (s *Server) decide(ctx context.Context, in DecisionRequest, _ func(none)) (out DecisionResult, err error) {
	d := modproxy.Decision{Action: in.Action, Reason: in.Reason, Link: in.Link, Until: in.Until, Time: time.Now().UTC()}
	if d.Address, err = policy.ParseAddress(in.Module, ""); err != nil {
		return out, err
	}
	if in.Versions != "" {
		versions, err := modproxy.ParseConstraint(in.Versions)
		if err != nil {
			return out, err
		}
		d.Versions = policy.CanonicalVersions(d.Action, versions)
	}
	if s.Operators != nil {
		d.By = s.Operators.Operator(ctx)
	}
	if d.By == "" {
		d.By = strings.TrimSpace("operator " + in.User)
	}
	if !d.Until.IsZero() && !d.Until.After(d.Time) {
		return out, fmt.Errorf("%w: until %s: that is in the past", modproxy.ErrInvalid, d.Until.UTC().Format(time.RFC3339))
	}
	if err := s.Gate.Follow(ctx); err != nil {
		return out, err
	}
	place, err := s.Gate.Place(ctx, d)
	if err == nil {
		out.Remarks, err = s.Gate.Remarks(ctx, d)
	}
	switch {
	case err != nil:
		return out, err
	case place.Was == nil && len(place.Same) == 0 && policy.Ends(d):
		return out, nothingToEnd(d, place.Others)
	case place.Was != nil && !place.Partly && same(*place.Was, d):
		d, out.Known = *place.Was, true
	default:
		if _, err := ledger.FormatDecision(d); err != nil {
			return out, err
		}
		if !in.Force && !policy.Ends(d) {
			unasked, err := s.exists(ctx, d)
			if err != nil {
				return out, err
			}
			out.Remarks = append(out.Remarks, unasked...)
		}
		if err = s.Ledger.Decide(ctx, d); err != nil {
			return out, err
		}
		if s.Operators != nil {
			s.Operators.Decided(d)
		}
		err = s.Gate.Follow(context.WithoutCancel(ctx))
	}
	if twins, errTwins := s.twins(ctx, d); err == nil && errTwins == nil { // the decision is made, even if this remark fails
		out.Remarks = append(out.Remarks, twins...)
	}
	out.Decision = Decision{Name: versionname.Of(d.Address.At("")), Decision: d, InForce: !policy.Ends(d)}
	return out, err
}

// same reports whether two decisions about the same versions are equal except for the operator and the time.
func same(a, b modproxy.Decision) bool {
	return a.Action == b.Action && a.Reason == b.Reason && a.Link == b.Link && a.Until.Equal(b.Until)
}

// nothingToEnd returns the error for a decision d that would end a decision that is not in force. others are decisions in force
// about other versions.
func nothingToEnd(d modproxy.Decision, others []modproxy.Decision) error {
	verb, state := "unblock", "blocked"
	if d.Action == modproxy.Deprecate {
		verb, state = "deprecate --lift", "deprecated"
	}
	text := fmt.Sprintf("%s is not %s", VersionsText(d.Address.String(), d.Versions), state)
	for _, o := range others {
		text += fmt.Sprintf("; %s is: \"%s\" ends that", VersionsText(o.Address.String(), o.Versions), commandText(verb, o.Address, o.Versions))
	}
	return absent(text)
}

// commandText returns the command line of a verb for versions of a module, or of all modules that a glob matches.
func commandText(verb string, m modproxy.Address, versions string) string {
	text := "modproxy " + verb + " " + clean.ShellQuote(m.String())
	if versions != "" {
		text += " " + clean.ShellQuote(versions)
	}
	return text
}

// VersionsText returns the text that names a module and the versions that a decision is about.
func VersionsText(module, versions string) string {
	if versions == "" {
		return "every version of " + module
	}
	if _, err := modproxy.ParseVersion(versions); err == nil {
		return module + " " + versions
	}
	return module + " (" + versions + ")"
}
