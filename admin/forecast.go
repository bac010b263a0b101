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

// ForecastRequest asks what clients would get of what configurations call if other rules were in force.
type ForecastRequest struct {
	ReportRequest
	Starts []closure.Start `json:"starts"`
}

// ForecastItem is a version that a client would get, or would not, or a call of which that is not known.
type ForecastItem struct {
	versionname.Name                 // without a version if all are refused, or it is not known which one it is; empty if no module is known
	Client           tfconfig.Client `json:"client,omitempty"`
	From             []string        `json:"from,omitempty"`   // the calls that lead to it, each with its file and line
	Source           string          `json:"source,omitempty"` // of the last one
	Outcome          policy.Outcome  `json:"outcome,omitempty"`
	Refused          bool            `json:"refused,omitempty"`
	Instead          string          `json:"instead,omitempty"` // the version that the client would get, as Version is refused
	Place            string          `json:"place,omitempty"`   // where the rule stands that decides
	Why              string          `json:"why,omitempty"`     // the reason that clients print
	Bypass           string          `json:"bypass,omitempty"`  // why it does not go through the proxy
	Problem          string          `json:"problem,omitempty"` // why it is not known what the client would get
}

// forecast walks as clients would, and tells what they would not get of what there is.
func (s *Server) forecast(ctx context.Context, in ForecastRequest, each func(ForecastItem)) (done none, err error) {
	rules, err := s.candidate(in.ReportRequest)
	if err != nil {
		return done, err
	}
	config := rules.Config
	config.Audit = false // which would refuse nothing
	if rules, err = policy.Compile(config); err != nil {
		return done, err
	}
	other := *s
	other.Gate = policy.NewGate(s.Gate.Ledger, s.Gate.Sights)
	other.Gate.Use(rules)
	asking := modproxy.WithAsker(modproxy.WithDates(ctx), modproxy.Asker{Groups: in.Groups})
	return done, other.engine().Walk(ctx, in.Groups, in.Starts, func(f closure.Found) {
		if f.Kind == closure.Ready || f.Kind == closure.Chosen && !f.Module.IsListed() {
			return // the verdict about what it was made of is told
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

// foresee adds the verdict about what a client would get if nothing were refused.
func (s *Server) foresee(ctx context.Context, f closure.Found, out *ForecastItem) error {
	v := f.Module
	refusal, refused := errors.AsType[*policy.Refusal](f.Err)
	switch {
	case refused:
		out.judge(refusal.Ref, refusal.Verdict)
		out.Why = refusal.Error()
		return nil
	case f.Kind == closure.Chosen, f.Kind == closure.Trouble && v.Name != "" && v.Version == "":
		all, err := s.Cache.Versions(ctx, v.Address) // of which the walk knows what is not refused
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

// judge sets what a verdict says of v.
func (f *ForecastItem) judge(v modproxy.Ref, verdict policy.Verdict) {
	f.Name, f.Outcome, f.Refused = versionname.Of(v), verdict.Outcome, verdict.Refused()
	if verdict.Rule != nil {
		f.Place = verdict.Rule.Place
	}
}
