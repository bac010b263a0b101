package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/modproxy/modproxy/auth"
)

// recheckTime is how often the principal of a long request is checked. A change of the tokens is seen a second later at
// most, so that a request ends within five.
const recheckTime = time.Second

// whileIdentified returns r with a context that ends when the principal of r is no longer identified, because its token
// was revoked or has expired. The cause of the context says so. A path that was signed for the token of an issuer stays
// good until it expires, and a request that has begun by then goes on. stop must be called after the answer.
func (h *Handler) whileIdentified(r *http.Request, segment string) (_ *http.Request, stop func()) {
	p := auth.PrincipalOf(r.Context())
	if h.cfg.Auth == nil || p.Kind == auth.ByIssuer && segment != "" {
		return r, func() {}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	first := time.AfterFunc(recheckTime, func() {
		for ctx.Err() == nil {
			if err := h.cfg.Auth.Still(p, time.Now()); err != nil {
				cancel(err)
				return
			}
			select {
			case <-time.After(recheckTime):
			case <-ctx.Done():
			}
		}
	})
	return r.WithContext(ctx), func() {
		first.Stop()
		cancel(nil)
	}
}

// endOf returns why the proxy ends the request with ctx. It returns nil if the request goes on, or the client has gone.
func endOf(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return cause
	}
	return nil
}

// cutWhenEnded cuts the client off when ctx ends because of its principal. stop must be called when the handler ends:
// the connection then belongs to the next request.
func (w *response) cutWhenEnded(ctx context.Context) (stop func()) {
	unregister := context.AfterFunc(ctx, func() {
		if why := endOf(ctx); why != nil && why != ErrShuttingDown { // which clients that wait are told
			w.cut(why)
		}
	})
	return func() {
		unregister()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.done = true
	}
}
