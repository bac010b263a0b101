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

// settle makes err, of a question that did not run in its caller's context, an answer to those who wait: the context
// that ended was not theirs. A layer below has its own times, and says itself when one of them is over.
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

// settleIn is settle for what ran in ctx, the context of the caller: if that has ended, it is the reason.
func settleIn(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return settle(err)
}

// late returns err, of a question in ctx, and if the time of ctx is over, says so before all else.
func late(ctx context.Context, err error, timeout time.Duration) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: not done within %v: %w", modproxy.ErrUnavailable, timeout, err)
	}
	return err
}

// holdFor returns how long err says not to ask again; zero when it does not say.
func holdFor(err error) time.Duration {
	if later, ok := errors.AsType[*modproxy.RetryLater](err); ok {
		return max(0, min(time.Until(later.After), maxHold))
	}
	return 0
}

// passing reports whether what failed with err may succeed at any moment, as far as err says.
func passing(err error) bool { return errors.Is(err, modproxy.ErrUnavailable) && holdFor(err) == 0 }

// temporary reports whether the trouble that err is about may end while a client waits.
func temporary(err error) bool {
	_, ok := errors.AsType[*modproxy.Temporary](err)
	return ok
}

// retrySoon returns err for clients to try again in a second.
func retrySoon(err error) error {
	return &modproxy.RetryLater{After: time.Now().Add(time.Second), Err: err}
}
