package admin

import (
	"context"
	"errors"
	"io/fs"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/policy"
)

// mirrorCheck tells what a mirror would tell if nothing could be asked for: what is not kept is a problem.
func (s *Server) mirrorCheck(ctx context.Context, in Mirror, each func(MirrorLine)) (out Mirrored, err error) {
	kept := &cache.Registry{Store: s.Store, Ledger: s.Ledger}
	defer func() { err = errors.Join(err, kept.Close(ctx)) }()
	next := &policy.Registry{Next: known{s.Cache, kept, s.Missing != nil}, Gate: s.Gate}
	ctx = modproxy.WithAsker(ctx, modproxy.Asker{Groups: in.Groups})
	return s.follow(ctx, next, in, true, each)
}

// known gives what is known without asking anybody.
type known struct {
	cache   Cache
	kept    *cache.Registry // asks nobody
	offline bool            // so clients are told of what is kept only
}

// Versions returns the versions that clients are told of now, or were when their registry was last asked.
func (k known) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	if k.offline {
		v, err := k.kept.Versions(ctx, m)
		return v, notKept(err)
	}
	v, err := k.cache.Known(ctx, m)
	if errors.Is(err, fs.ErrNotExist) {
		err = &lacking{m.At("")}
	}
	return v, err
}

// Location implements [modproxy.Registry].
func (k known) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	l, err := k.kept.Location(ctx, v)
	return l, notKept(err)
}

// Package implements [modproxy.Registry].
func (k known) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := k.kept.Package(ctx, v)
	return p, notKept(err)
}

// notKept returns err, without what a client is told to do if that is that something is not kept.
func notKept(err error) error {
	if e, ok := errors.AsType[*modproxy.NotKept](err); ok {
		return &lacking{e.Ref}
	}
	return err
}

// lacking is the error for what is not kept.
type lacking struct{ modproxy.Ref }

func (l *lacking) Error() string {
	if l.Version == "" {
		return l.String() + ": no version of it is kept"
	}
	return l.String() + ": it is not kept"
}

func (l *lacking) Unwrap() error { return modproxy.ErrUnavailable }
