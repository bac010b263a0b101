package admin

import (
	"context"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/mirror"
)

// engine returns a mirror engine over the fields of the server.
func (s *Server) engine() *mirror.Engine {
	e := &mirror.Engine{
		Cache: s.Cache, Store: s.Store, Ledger: s.Ledger, Gate: s.Gate, Routes: s.Routing, Reader: s.Configurations,
		CachedOnly: s.Missing != nil, MayRead: s.mayRead,
	}
	if s.Upstreams != nil {
		e.Upstreams = s.Upstreams
	}
	if s.Nested != nil {
		e.Nested = s.Nested
	}
	return e
}

func (s *Server) mirrorFetch(ctx context.Context, in mirror.Request, each func(mirror.Line)) (mirror.Progress, error) {
	return s.engine().Fetch(ctx, in, each)
}

func (s *Server) mirrorCheck(ctx context.Context, in mirror.Request, each func(mirror.Line)) (mirror.Progress, error) {
	return s.engine().Check(ctx, in, each)
}

// mayRead returns the reason why the caller may not read packages of m, or nil.
func (s *Server) mayRead(ctx context.Context, m modproxy.Address) error {
	if s.Operators == nil {
		return nil
	}
	return s.Operators.MayRead(ctx, m)
}
