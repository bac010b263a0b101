// Package retry repeats a request that the other side wants to be sent again later.
//
//	versions, err := retry.Later(ctx, time.Minute, func() (*modproxy.Versions, error) { return reg.Versions(ctx, m) })
//
// Invariant: a request is not repeated before the time in a [modproxy.RetryLater].
package retry

import (
	"context"
	"errors"
	"time"

	"github.com/modproxy/modproxy"
)

// minPause is the shortest pause between two requests of [Later].
const minPause = 100 * time.Millisecond

// Later calls request until its error is not a [modproxy.RetryLater], or demands a pause that ends later than within after the
// first call. It returns the last answer. If ctx ends, Later returns its error.
func Later[T any](ctx context.Context, within time.Duration, request func() (T, error)) (answer T, err error) {
	for end := time.Now().Add(within); ; {
		answer, err = request()
		later, isLater := errors.AsType[*modproxy.RetryLater](err)
		if !isLater || later.After.After(end) {
			return answer, err
		}
		select {
		case <-time.After(max(time.Until(later.After), minPause)):
		case <-ctx.Done():
			return answer, ctx.Err()
		}
	}
}
