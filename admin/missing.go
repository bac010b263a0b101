package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/versionname"
)

// A MissingVersion is a version that clients requested while modproxy was offline and that is not cached. If Version is empty, it
// is any version of the module.
type MissingVersion struct {
	MissedRequests
	// Listed are the cached versions, if clients received this list and chose none of them. The version that they need is not
	// known.
	Listed []string `json:"listed,omitempty"`
}

// missing lists the missing versions of a module, or of all modules. It leaves out versions that have been cached since.
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
		_, gone := errors.AsType[*modproxy.NotCached](err)
		switch {
		case err != nil && !gone:
			return done, err
		case r.Version != "":
			if s.isCached(ctx, r.Ref, kept) {
				continue
			}
		case gone:
		case r.Refused != kept.ETag: // the list of cached versions has changed since
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

// isCached reports whether v is cached. kept is the list of the cached versions of its module or provider, or nil. For an archive the
// list is not enough: it has the releases.
func (s *Server) isCached(ctx context.Context, v modproxy.Ref, kept *modproxy.Versions) bool {
	switch v.Kind() {
	case modproxy.Provider:
		return s.holds(ctx, v)
	case modproxy.Module:
	}
	if kept == nil {
		return false
	}
	_, found := kept.Find(v.Version)
	return found
}

// holds reports whether the package of v is cached.
func (s *Server) holds(ctx context.Context, v modproxy.Ref) bool {
	for p, err := range s.Cache.List(ctx, v.Address) {
		if p.Ref == v && err == nil {
			return true
		}
	}
	return false
}

// clearMissing removes the requests for missing versions of a module, or of all modules, and returns their number.
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

var errOnline = fmt.Errorf("%w: modproxy is not offline: missing packages are downloaded when clients request them", modproxy.ErrInvalid)
