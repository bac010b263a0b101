package proxy

import (
	"context"
	"time"

	"github.com/modproxy/modproxy/auth"
)

// recheckTime is the time between two checks of the principal of a long request. The request must end within five seconds of a
// revocation.
const recheckTime = time.Second

// whileIdentified returns a context that ends, with the cause, when the token of the principal of ctx is revoked or expires. A path
// that was signed for an issuer's token remains valid for a request that has begun. The caller must call stop.
func (h *Handler) whileIdentified(ctx context.Context, segment string) (_ context.Context, stop func()) {
	p := auth.PrincipalOf(ctx)
	if h.cfg.Auth == nil || p.Kind == auth.ByIssuer && segment != "" {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stopAsking := every(ctx, recheckTime, func() {
		if err := h.cfg.Auth.Still(p, time.Now()); err != nil {
			cancel(err)
		}
	})
	return ctx, func() {
		cancel(nil)
		stopAsking()
	}
}

// every calls f once in each d until ctx ends. After stop, at most a call that has begun goes on.
func every(ctx context.Context, d time.Duration, f func()) (stop func() bool) {
	var timer *time.Timer
	timer = time.AfterFunc(time.Hour, func() { // runs after the Reset below, when timer is set
		f()
		if timer.Reset(d); ctx.Err() != nil {
			timer.Stop() // stop may have come before the Reset
		}
	})
	timer.Reset(d)
	return timer.Stop
}
