package admin

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/policy"
)

// A PolicyTestRequest asks for the verdict on a version, or on a module if Version is empty.
type PolicyTestRequest struct {
	versionname.Name
	Groups []string `json:"groups,omitempty"` // of the client
}

// A Verdict is the verdict on a version or a module, with its reasons.
type Verdict struct {
	versionname.Name
	Outcome policy.Outcome   `json:"outcome"`
	Refused bool             `json:"refused"`
	Audit   bool             `json:"audit,omitempty"` // audit mode: a denied version is served
	Why     string           `json:"why,omitempty"`   // if it is denied: the text that users see
	Steps   []policy.Step    `json:"steps"`
	Known   int              `json:"known,omitempty"` // the number of known versions of the module
	Hidden  []HiddenVersions `json:"hidden,omitempty"`
}

// HiddenVersions are versions of a module that are denied for the same reason.
type HiddenVersions struct {
	Outcome  policy.Outcome `json:"outcome"`
	Why      string         `json:"why"`
	Versions []string       `json:"versions"`
}

func (s *Server) policyTest(ctx context.Context, in PolicyTestRequest, _ func(none)) (out Verdict, err error) {
	v, err := in.Parse("")
	if err != nil {
		return out, err
	}
	ctx = modproxy.WithClient(modproxy.WithDates(ctx), modproxy.Client{Groups: in.Groups})
	verdict, steps, err := s.Gate.Explain(ctx, v)
	if err != nil {
		return out, err
	}
	out = Verdict{
		Name: versionname.Of(v), Outcome: verdict.Outcome, Refused: verdict.Refused(), Audit: s.Gate.Rules().Audit,
		Why: s.why(v, verdict), Steps: steps,
	}
	if v.Version == "" {
		err = s.hidden(ctx, v.Address, &out)
	}
	return out, err
}

// why returns the text that users see for a denied version. It is empty if v is allowed.
func (s *Server) why(v modproxy.Ref, verdict policy.Verdict) string {
	if !verdict.Refused() {
		return ""
	}
	return (&policy.Refusal{Verdict: verdict, Ref: v, Contact: s.Gate.Rules().Contact}).Error()
}

// hidden adds the known versions of m that are denied.
func (s *Server) hidden(ctx context.Context, m modproxy.Address, out *Verdict) error {
	known, err := s.Cache.StoredVersions(ctx, m)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	out.Known = len(known.List)
	if s.Gate.NeedsAge(ctx, m) {
		if _, err := s.Gate.FirstSeen.Of(ctx, m); err != nil { // Of requests all dates at once
			return err
		}
	}
	for _, l := range known.List {
		v := m.At(l.Version.String())
		verdict, err := s.Gate.Decide(ctx, v)
		if err != nil {
			return err
		}
		if !verdict.Refused() {
			continue
		}
		why := s.why(v, verdict)
		i := slices.IndexFunc(out.Hidden, func(h HiddenVersions) bool { return h.Outcome == verdict.Outcome && h.Why == why })
		if i < 0 {
			i, out.Hidden = len(out.Hidden), append(out.Hidden, HiddenVersions{Outcome: verdict.Outcome, Why: why})
		}
		out.Hidden[i].Versions = append(out.Hidden[i].Versions, v.Version)
	}
	return nil
}
