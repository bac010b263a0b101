package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/mirror"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/release"
)

// MissedRequests counts the requests of clients that could not get a version. If Version is empty, it counts requests for any
// version of the module.
type MissedRequests struct {
	versionname.Name
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	Count  int       `json:"count"`
	Askers []string  `json:"askers,omitempty"` // the first clients
}

// A PendingVersion is a version that clients requested and that waits for approval, with the known facts about it.
type PendingVersion struct {
	MissedRequests
	Rule         string          `json:"rule"`          // file and line of the rule that requires approval
	Sum          modproxy.Sum    `json:"sum,omitempty"` // empty if the version was not downloaded yet
	Source       modproxy.Source `json:"source,omitzero"`
	Size         int64           `json:"size_bytes,omitempty"` // zero if the package is not cached
	Dependencies *Dependencies   `json:"brings,omitempty"`     // nil if the package is not cached or cannot be read
	Unread       string          `json:"unread,omitempty"`     // why the package cannot be read
	// Release describes a version of a provider. It replaces Dependencies, because providers have no configuration.
	Release *ReleaseSummary `json:"release,omitempty"`
	Error   string          `json:"error,omitempty"` // why the version could not be downloaded
}

// A ReleaseSummary describes the release of a provider.
type ReleaseSummary struct {
	Platforms []string      `json:"platforms"`
	Protocols []string      `json:"protocols,omitempty"`
	Keys      modproxy.Keys `json:"keys,omitempty"`  // the signing keys; empty if the release is unsigned
	Signed    time.Time     `json:"signed,omitzero"` // the time in the signature, which the signer claims
}

// pending lists the versions of a module, or of all modules, that clients requested and that an approval would allow.
func (s *Server) pending(ctx context.Context, in versionname.Name, each func(PendingVersion)) (done none, err error) {
	return done, s.eachPending(ctx, in, false, each)
}

// fetch downloads the pending versions of a module, or of all modules, and lists them. They are stored and recorded, but not
// served.
func (s *Server) fetch(ctx context.Context, in versionname.Name, each func(PendingVersion)) (done none, err error) {
	if s.Upstreams == nil {
		return done, mirror.ErrOffline
	}
	return done, s.eachPending(ctx, in, true, each)
}

func (s *Server) eachPending(ctx context.Context, in versionname.Name, fetch bool, each func(PendingVersion)) error {
	return s.eachUnapproved(ctx, in, func(r history.Request, verdict policy.Verdict) error {
		v := r.Ref
		p := PendingVersion{MissedRequests: MissedRequests{versionname.Of(v), r.First, r.Last, r.Count, r.Askers}, Rule: verdict.Rule.Place}
		if fetch {
			if err := s.bring(ctx, v); err != nil {
				p.Error = err.Error()
			}
		}
		if err := s.describe(ctx, v, &p); err != nil {
			return err
		}
		each(p)
		return nil
	})
}

// eachUnapproved calls each for the requests for versions of a module, or of all modules, that wait for approval.
func (s *Server) eachUnapproved(ctx context.Context, in versionname.Name, each func(history.Request, policy.Verdict) error) error {
	if err := s.Gate.Follow(ctx); err != nil { // versions that were approved a moment ago are not pending
		return err
	}
	all, err := requested(ctx, s.Pending, in)
	if err != nil {
		return err
	}
	for _, r := range all {
		verdict, err := s.Gate.Decide(modproxy.WithClient(ctx, modproxy.Client{Groups: r.Groups}), r.Ref)
		if err == nil && verdict.Outcome == policy.Unapproved {
			err = each(r, verdict)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// requested lists the recorded requests, of a module or of all.
func requested(ctx context.Context, demand *history.Demand, in versionname.Name) (all []history.Request, err error) {
	wanted, err := in.ParseOptional()
	if err != nil {
		return nil, err
	}
	_ = demand.Write(ctx) // requests that cannot be recorded yet, for example on a full disk, are listed later
	for r, err := range demand.List(ctx) {
		if err != nil {
			return nil, err
		}
		if in == (versionname.Name{}) || r.Of(wanted) {
			all = append(all, r)
		}
	}
	return all, nil
}

// bring downloads the package of v unless it is cached.
func (s *Server) bring(ctx context.Context, v modproxy.Ref) error {
	if !s.Upstreams.HasUpstream(v.Host) {
		return fmt.Errorf("%s: %s is not among upstreams", v, v.Host)
	}
	p, err := s.Cache.Package(ctx, v)
	if err != nil {
		return err
	}
	return p.Close()
}

// describe adds the facts in the ledger, the size of the package, and its dependencies or its release.
func (s *Server) describe(ctx context.Context, v modproxy.Ref, p *PendingVersion) error {
	rec, err := s.Ledger.Lookup(ctx, v)
	if errors.Is(err, fs.ErrNotExist) {
		return ctx.Err()
	} else if err != nil {
		return err
	}
	p.Sum, p.Source = rec.Sum, rec.Source
	var kept *cache.StoredPackage
	for l, err := range s.Cache.List(ctx, v.Address) {
		if err == nil && l.Ref == v && !l.Lost && !l.Superseded {
			kept = &l.StoredPackage
		}
	}
	if kept == nil {
		return nil
	}
	p.Size = kept.Size
	if err = s.mayRead(ctx, v.Address); err != nil {
		p.Unread = err.Error()
		return nil
	}
	switch v.Kind() {
	case modproxy.Provider:
		p.Release, err = s.released(ctx, kept)
	case modproxy.Module:
		p.Dependencies, err = s.dependencies(ctx, kept)
	}
	if err != nil {
		p.Unread = err.Error()
	}
	return ctx.Err()
}

// released reads a cached release.
func (s *Server) released(ctx context.Context, kept *cache.StoredPackage) (*ReleaseSummary, error) {
	body, err := s.Store.Open(ctx, kept.Digest, kept.Size)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	r, err := release.Open(body)
	if err != nil {
		return nil, err
	}
	out := &ReleaseSummary{Protocols: r.Protocols}
	for _, a := range r.Archives {
		out.Platforms = append(out.Platforms, a.Platform.String())
	}
	if r.Unsigned {
		return out, nil
	}
	signer, err := r.Signer()
	out.Signed, out.Keys = signer.Time, signer.Keys
	return out, err
}
