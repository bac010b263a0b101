package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/modproxy/modproxy/auth"
)

// How often a request that takes longer is held to what it was let in by. A change of
// the tokens is seen a second later at most, so that a request ends within five.
const lookAgain = time.Second

// whileKnown is r, a request for a package, with a context that ends when its principal
// is no longer known: the token was revoked, or has expired. The cause is then why. A
// path that was signed for who is known by an issuer is good until it expires, and
// what was begun by then is not ended. stop is called when r is answered.
func (h *Handler) whileKnown(r *http.Request, segment string) (_ *http.Request, stop func()) {
	p := auth.PrincipalOf(r.Context())
	if h.cfg.Auth == nil || p.Kind == auth.ByIssuer && segment != "" {
		return r, func() {}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	later := time.AfterFunc(lookAgain, func() {
		tick := time.NewTicker(lookAgain)
		defer tick.Stop()
		for ctx.Err() == nil {
			if err := h.cfg.Auth.Still(p, time.Now()); err != nil {
				cancel(err)
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return r.WithContext(ctx), func() {
		later.Stop()
		cancel(nil)
	}
}

// ended is why the request with ctx is to end; nil if it is not, or its client is gone.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return cause
	}
	return nil
}

// endWith cuts the client off when ctx ends because of its principal; stop is called
// when the handler ends, because the connection is another request's then.
func (r *recorder) endWith(ctx context.Context) (stop func()) {
	left := context.AfterFunc(ctx, func() {
		if why := ended(ctx); why != nil && why != ErrEnding { // who waits is told of that
			r.end(why)
		}
	})
	return func() {
		left()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.over = true
	}
}

// end ends what is being written, now.
func (r *recorder) end(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.ended = why
	_ = r.control.SetWriteDeadline(time.Unix(1, 0)) // a test's writer has none
}
