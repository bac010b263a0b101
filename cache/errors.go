package cache

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/modproxy/modproxy"
)

// settle makes err, of a question that did not run in its caller's context, an answer to
// those who wait: the context that ended was not theirs. A layer below has its own times,
// and says itself when one of them is over.
func settle(err error, timeout time.Duration) error {
	var full *modproxy.NoSpace
	if notWritable(err) && !errors.As(err, &full) {
		return &modproxy.NoSpace{Err: err}
	}
	for _, known := range []error{modproxy.ErrInvalid, modproxy.ErrUnauthorized, modproxy.ErrDenied,
		modproxy.ErrNotFound, modproxy.ErrChanged, modproxy.ErrUnavailable} {
		if errors.Is(err, known) {
			return err
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: not done within %v", modproxy.ErrUnavailable, timeout)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: ended before it was done", modproxy.ErrUnavailable)
	}
	return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
}

// late returns err, of a question in ctx, and if the time of ctx is over, says so before
// all else.
func late(ctx context.Context, err error, timeout time.Duration) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: not done within %v: %w", modproxy.ErrUnavailable, timeout, err)
	}
	return err
}

// notWritable reports whether err says that nothing can be kept for now.
func notWritable(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS)
}

// holdFor returns how long err says not to ask again; zero when it does not say.
func holdFor(err error) time.Duration {
	var later *modproxy.RetryLater
	if !errors.As(err, &later) {
		return 0
	}
	return max(0, min(time.Until(later.After), maxHold))
}
