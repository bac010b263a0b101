package cache

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
)

// settle returns err, of work that did not run in its caller's context, as an error for callers: the context that ended was not
// theirs. Layers below have their own timeouts, and report them.
func settle(err error) error {
	if _, full := errors.AsType[*modproxy.NoSpace](err); full {
		return err
	}
	for _, notWritable := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS} {
		if errors.Is(err, notWritable) {
			return &modproxy.NoSpace{Err: err, Inodes: durable.NoInodes(err)}
		}
	}
	for _, known := range []error{modproxy.ErrInvalid, modproxy.ErrUnauthorized, modproxy.ErrDenied,
		modproxy.ErrNotFound, modproxy.ErrChanged, modproxy.ErrUnavailable} {
		if errors.Is(err, known) {
			return err
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: not done in time", modproxy.ErrUnavailable)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: ended before it was done", modproxy.ErrUnavailable)
	}
	return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
}

// settleIn is settle for work in ctx, the context of the caller: if ctx ended, its error is the reason.
func settleIn(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return settle(err)
}

// late returns err, of a request in ctx. If the time of ctx is over, the error begins with that.
func late(ctx context.Context, err error, timeout time.Duration) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: not done within %v: %w", modproxy.ErrUnavailable, timeout, err)
	}
	return err
}

// holdFor returns for how long err forbids a retry; zero if err has no such time.
func holdFor(err error) time.Duration {
	if later, ok := errors.AsType[*modproxy.RetryLater](err); ok {
		return max(0, min(time.Until(later.After), maxHold))
	}
	return 0
}

// passing reports whether work that failed with err may succeed at any moment.
func passing(err error) bool { return errors.Is(err, modproxy.ErrUnavailable) && holdFor(err) == 0 }

// temporary reports whether the cause of err may end while a client waits.
func temporary(err error) bool {
	_, ok := errors.AsType[*modproxy.Temporary](err)
	return ok
}

// retrySoon returns err for clients, which retry after a second.
func retrySoon(err error) error {
	return &modproxy.RetryLater{After: time.Now().Add(time.Second), Err: err}
}
