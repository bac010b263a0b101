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

// MissedRequests counts the requests of clients that could not get a version, or any version of a module if Version is empty.
type MissedRequests struct {
	versionname.Name
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	Count  int       `json:"count"`
	Askers []string  `json:"askers,omitempty"` // the first ones
}

// PendingVersion is a version that clients asked for and that waits for approval, with what is known of it.
type PendingVersion struct {
	MissedRequests
	Rule         string          `json:"rule"`          // where the rule stands that wants approval
	Sum          modproxy.Sum    `json:"sum,omitempty"` // empty if it was not fetched yet
	Source       modproxy.Source `json:"source,omitzero"`
	Size         int64           `json:"size_bytes,omitempty"` // zero if its package is not kept
	Dependencies *Dependencies   `json:"brings,omitempty"`     // nil if its package is not kept, or cannot be read
	Unread       string          `json:"unread,omitempty"`     // why its package cannot be read
	// Release is of a provider, whose package is no configuration.
	Release *ReleaseSummary `json:"release,omitempty"`
	Error   string          `json:"error,omitempty"` // why it could not be fetched
}

// ReleaseSummary is what the release of a provider says.
type ReleaseSummary struct {
	Platforms []string      `json:"platforms"`
	Protocols []string      `json:"protocols,omitempty"`
	Keys      modproxy.Keys `json:"keys,omitempty"`  // that have signed it; none if nobody has
	Signed    time.Time     `json:"signed,omitzero"` // when, as whoever has signed it says
}

// pending lists what waits, of a module or of all: versions that were asked for, and would be allowed if they were approved.
func (s *Server) pending(ctx context.Context, in versionname.Name, each func(PendingVersion)) (done none, err error) {
	return done, s.eachPending(ctx, in, false, each)
}

// fetch fetches what waits, of a module or of all, and lists it. It is kept and recorded, and still not served.
func (s *Server) fetch(ctx context.Context, in versionname.Name, each func(PendingVersion)) (done none, err error) {
	if s.Upstreams == nil {
		return done, mirror.ErrOffline
	}
	return done, s.eachPending(ctx, in, true, each)
}

func (s *Server) eachPending(ctx context.Context, in versionname.Name, fetch bool, each func(PendingVersion)) error {
	if err := s.Gate.Follow(ctx); err != nil { // what was approved a moment ago does not wait
		return err
	}
	all, err := requested(ctx, s.Pending, in)
	if err != nil {
		return err
	}
	for _, r := range all {
		v := r.Ref
		verdict, err := s.Gate.Decide(modproxy.WithAsker(ctx, modproxy.Asker{Groups: r.Groups}), v)
		if err != nil {
			return err
		}
		if verdict.Outcome != policy.Unapproved {
			continue
		}
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
	}
	return nil
}

// requested lists the recorded requests, of a module or of all.
func requested(ctx context.Context, demand *history.Demand, in versionname.Name) (all []history.Request, err error) {
	wanted, err := in.ParseOptional()
	if err != nil {
		return nil, err
	}
	_ = demand.Write(ctx) // requests that cannot be recorded, for example on a full disk, are listed after they are recorded
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

// bring fetches a package, unless it is kept.
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

// describe adds what the ledger knows of a version, how large its package is, and what that brings.
func (s *Server) describe(ctx context.Context, v modproxy.Ref, p *PendingVersion) error {
	rec, err := s.Ledger.Lookup(ctx, v)
	if errors.Is(err, fs.ErrNotExist) {
		return ctx.Err()
	} else if err != nil {
		return err
	}
	p.Sum, p.Source = rec.Sum, rec.Source
	var kept *cache.Kept
	for l, err := range s.Cache.List(ctx, v.Address) {
		if err == nil && l.Ref == v && !l.Lost && !l.Superseded {
			kept = &l.Kept
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
	if v.IsProvider() {
		p.Release, err = s.released(ctx, kept)
	} else {
		p.Dependencies, err = s.dependencies(ctx, kept)
	}
	if err != nil {
		p.Unread = err.Error()
	}
	return ctx.Err()
}

// released reads a release that is kept.
func (s *Server) released(ctx context.Context, kept *cache.Kept) (*ReleaseSummary, error) {
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
