package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/versionname"
)

// MissingVersion is what clients asked for that is not kept while modproxy is offline: a version, or without one any of a module.
type MissingVersion struct {
	MissedRequests
	// Listed are the versions that are kept, if clients were told these and took none. Which one they wanted is not known.
	Listed []string `json:"listed,omitempty"`
}

// missing lists what is missing, of a module or of all. What has been kept since is not.
func (s *Server) missing(ctx context.Context, in versionname.Name, each func(MissingVersion)) (done none, err error) {
	if s.Missing == nil {
		return done, errOnline
	}
	all, err := requested(ctx, s.Missing, in)
	if err != nil {
		return done, err
	}
	for _, r := range all {
		m := MissingVersion{MissedRequests: MissedRequests{versionname.Of(r.Ref), r.First, r.Last, r.Count, r.Askers}}
		kept, err := s.Cache.Versions(ctx, r.Address)
		_, gone := errors.AsType[*modproxy.NotKept](err)
		switch {
		case err != nil && !gone:
			return done, err
		case r.IsProvider() && r.Version != "":
			if s.holds(ctx, r.Ref) {
				continue
			}
		case gone:
		case r.Version != "":
			if _, found := kept.Find(r.Version); found {
				continue
			}
		case r.Refused != kept.ETag: // others are kept now than were then
			continue
		default:
			for _, l := range kept.List {
				m.Listed = append(m.Listed, l.Version.String())
			}
		}
		each(m)
	}
	return done, nil
}

// holds reports whether a package is kept.
func (s *Server) holds(ctx context.Context, v modproxy.Ref) bool {
	for p, err := range s.Cache.List(ctx, v.Address) {
		if p.Ref == v && err == nil {
			return true
		}
	}
	return false
}

// clearMissing forgets what is missing, of a module or of all, and returns how much that was.
func (s *Server) clearMissing(ctx context.Context, in versionname.Name, _ func(none)) (int, error) {
	if s.Missing == nil {
		return 0, errOnline
	}
	v, err := in.ParseOptional()
	if err != nil {
		return 0, err
	}
	return s.Missing.Clear(ctx, v)
}

var errOnline = fmt.Errorf("%w: modproxy is not offline: what is missing is fetched when it is asked for", modproxy.ErrInvalid)
