package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/policy"
)

// A ReportRequest asks for the verdicts on all versions that are cached or in the ledger.
type ReportRequest struct {
	Rules   *policy.Config `json:"rules,omitempty"`   // nil: the rules in force
	Default string         `json:"default,omitempty"` // allow or deny; empty: the default of the rules
	Groups  []string       `json:"groups,omitempty"`  // of the client that the verdicts are for
}

// A ReportItem is the verdict on one version.
type ReportItem struct {
	versionname.Name
	Kept    bool           `json:"kept"` // the package is cached; otherwise only the record in the ledger exists
	Outcome policy.Outcome `json:"outcome"`
	Refused bool           `json:"refused"`
	Place   string         `json:"place,omitempty"` // file and line of the rule that decides
	Why     string         `json:"why,omitempty"`   // the reason that clients print
	Audit   bool           `json:"audit,omitempty"` // audit mode: a denied version would be served
	// Conditions are the conditions of the rules that allow the version to some clients. It is empty if a rule allows the version
	// without conditions.
	Conditions []policy.Conditions `json:"conditions,omitempty"`
	// DistinguishVersions reports whether a rule is only about some versions of the module.
	DistinguishVersions bool `json:"distinguish_versions,omitempty"`
}

// report lists the verdicts by module and version.
func (s *Server) report(ctx context.Context, in ReportRequest, each func(ReportItem)) (done none, err error) {
	rules, err := s.candidate(in)
	if err != nil {
		return done, err
	}
	other := *s
	other.Gate = policy.NewGate(s.Gate.Ledger, s.Gate.FirstSeen)
	other.Gate.Use(rules)
	kept := map[modproxy.Ref]bool{} // whether the package of each version is cached
	for l, err := range s.Cache.List(ctx, modproxy.Address{}) {
		if err != nil && l.Version == "" {
			return done, err
		}
		kept[l.Ref] = err == nil && !l.Lost && !l.Superseded
	}
	for rec, err := range s.Ledger.All(ctx) {
		if err != nil {
			return done, err
		}
		if _, listed := kept[rec.Ref]; !listed {
			kept[rec.Ref] = false
		}
	}
	ctx = modproxy.WithClient(ctx, modproxy.Client{Groups: in.Groups})
	byName := func(a, b modproxy.Ref) int { return strings.Compare(a.String(), b.String()) }
	for _, v := range slices.SortedFunc(maps.Keys(kept), byName) {
		if !v.IsListed() {
			continue // the verdict on the version that it is derived from applies
		}
		verdict, err := other.Gate.Decide(ctx, v)
		if err != nil {
			return done, err
		}
		out := ReportItem{
			Name: versionname.Of(v), Kept: kept[v], Outcome: verdict.Outcome, Refused: verdict.Refused(), Why: other.why(v, verdict), Audit: rules.Audit,
			Conditions: rules.ConditionsOf(v), DistinguishVersions: rules.DistinguishVersions(v.Address),
		}
		if verdict.Rule != nil {
			out.Place = verdict.Rule.Place
		}
		each(out)
	}
	return done, nil
}

// candidate returns the rules that a report applies.
func (s *Server) candidate(in ReportRequest) (*policy.Rules, error) {
	if in.Rules == nil && in.Default == "" {
		return s.Gate.Rules(), nil
	}
	config := s.Gate.Rules().Config
	if in.Rules != nil {
		config = *in.Rules
	}
	switch in.Default {
	case "allow", "deny":
		config.DefaultDeny = in.Default == "deny"
	case "":
	default:
		return nil, fmt.Errorf("%w: default: want allow or deny, not %.80q", modproxy.ErrInvalid, in.Default)
	}
	rules, err := policy.Compile(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", modproxy.ErrInvalid, err)
	}
	return rules, nil
}
