package admin

import (
	"context"
	"errors"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/tfconfig"
)

// A ForecastRequest asks which versions clients would receive for the calls in configurations if other rules were in force.
type ForecastRequest struct {
	ReportRequest
	Starts []closure.Start `json:"starts"`
}

// A ForecastItem is a version that a client would receive or would be denied, or a call whose version is not known.
type ForecastItem struct {
	versionname.Name                 // without a version if all are denied or the version is not known; empty if the module is not known
	Client           tfconfig.Client `json:"client,omitempty"`
	From             []string        `json:"from,omitempty"`   // the calls that lead to it, each with its file and line
	Source           string          `json:"source,omitempty"` // of the last call
	Outcome          policy.Outcome  `json:"outcome,omitempty"`
	Refused          bool            `json:"refused,omitempty"`
	Instead          string          `json:"instead,omitempty"` // the version that the client would receive because Version is denied
	Place            string          `json:"place,omitempty"`   // file and line of the rule that decides
	Why              string          `json:"why,omitempty"`     // the reason that clients print
	Bypass           string          `json:"bypass,omitempty"`  // why the call bypasses the proxy
	Problem          string          `json:"problem,omitempty"` // why the version for the client is not known
}

// forecast follows the calls as clients do, under the rules of the request. It reports the verdict on each version.
func (s *Server) forecast(ctx context.Context, in ForecastRequest, each func(ForecastItem)) (done none, err error) {
	rules, err := s.candidate(in.ReportRequest)
	if err != nil {
		return done, err
	}
	config := rules.Config
	config.Audit = false // in audit mode, rules deny nothing
	if rules, err = policy.Compile(config); err != nil {
		return done, err
	}
	other := *s
	other.Gate = policy.NewGate(s.Gate.Ledger, s.Gate.FirstSeen)
	other.Gate.Use(rules)
	asking := modproxy.WithClient(modproxy.WithDates(ctx), modproxy.Client{Groups: in.Groups})
	return done, other.engine().Walk(ctx, in.Groups, in.Starts, func(f closure.Found) {
		if f.Kind == closure.Ready || f.Kind == closure.Chosen && !f.Module.IsListed() {
			return // the verdict on the version that it is derived from is reported
		}
		out := ForecastItem{Name: versionname.Of(f.Module), Client: f.Client, Source: f.Source}
		for _, step := range f.Chain {
			out.From = append(out.From, step.String())
		}
		switch err := other.foresee(asking, f, &out); {
		case err != nil:
			out.Problem = err.Error()
		case f.Kind == closure.Bypass && !f.Dynamic:
			out.Bypass = f.Err.Error()
		case f.Err != nil && !out.Refused:
			out.Problem = f.Err.Error()
		}
		each(out)
	})
}

// foresee adds the verdict on the version that a client would receive if no rule denied it.
func (s *Server) foresee(ctx context.Context, f closure.Found, out *ForecastItem) error {
	v := f.Module
	refusal, refused := errors.AsType[*policy.Refusal](f.Err)
	switch {
	case refused:
		out.judge(refusal.Ref, refusal.Verdict)
		out.Why = refusal.Error()
		return nil
	case f.Kind == closure.Chosen, f.Kind == closure.Trouble && v.Name != "" && v.Version == "":
		all, err := s.Cache.Versions(ctx, v.Address) // all versions; f has only the allowed ones
		if err != nil {
			break
		}
		wanted, err := closure.ChooseModule(f.Client, all.List, f.Constraint)
		if err != nil || wanted == v.Version {
			break
		}
		verdict, err := s.Gate.Decide(ctx, v.Address.At(wanted))
		if err != nil {
			return err
		}
		if verdict.Refused() {
			out.judge(v.Address.At(wanted), verdict)
			out.Why, out.Instead = s.why(v.Address.At(wanted), verdict), v.Version
			return nil
		}
	}
	if f.Kind != closure.Chosen {
		return nil
	}
	verdict, err := s.Gate.Decide(ctx, v)
	if err == nil {
		out.judge(v, verdict)
	}
	return err
}

// judge sets the verdict on v.
func (f *ForecastItem) judge(v modproxy.Ref, verdict policy.Verdict) {
	f.Name, f.Outcome, f.Refused = versionname.Of(v), verdict.Outcome, verdict.Refused()
	if verdict.Rule != nil {
		f.Place = verdict.Rule.Place
	}
}
