package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy/internal/hedge"
)

// errFailed marks a response with a temporary status, so that hedge.Do prefers another response.
var errFailed = errors.New("the answer has a status that may pass")

// sending is how a request is sent.
type sending struct {
	archive bool
	window  time.Duration // for the first bytes of the content; 0: do not wait for them
	hedge   bool          // a second send of the request
	// more reports whether the request may be hedged, and counts the hedge; nil never hedges. Calls are not concurrent.
	more func() bool
}

// roundTrip sends one request under the policy, with hedging. All requests go through it.
func (c *Client) roundTrip(r *http.Request, how sending) (*http.Response, error) {
	t, err := targetOf(r.URL)
	if err != nil {
		return nil, err
	}
	if err := c.policy.check(t); err != nil {
		return nil, err
	}
	hasBody := r.Body != nil && r.Body != http.NoBody
	if !c.Hedges() || how.more == nil || hasBody && r.GetBody == nil {
		return c.sendOnce(r, t, how, func() {})
	}
	h := c.hosts.at(t)
	h.hedged.Count()
	var sent atomic.Bool
	got, err := hedge.Do(r.Context(), hedge.Request[answer]{
		Send: func(ctx context.Context, late func()) (a answer, err error) {
			how, r := how, r.Clone(ctx)
			how.hedge = sent.Swap(true)
			if hasBody {
				if r.Body, err = r.GetBody(); err != nil {
					return a, err
				}
			}
			a = answer{hedge: how.hedge}
			if a.Response, err = c.sendOnce(r, t, how, late); err == nil && mayPass(a.StatusCode) {
				err = errFailed
			}
			return a, err
		},
		May:    func() bool { return h.hedged.Take() && how.more() },
		Failed: func(error) (time.Duration, bool) { return -1, false },
		Drop: func(a answer) {
			if a.Response != nil {
				a.Body.Close()
			}
		},
	})
	if got.hedge && err == nil && !how.archive {
		h.overtaken()
	}
	if err == errFailed {
		err = nil
	}
	return got.Response, err
}

// answer is the response to one send of a request.
type answer struct {
	*http.Response
	hedge bool
}

// mayPass reports whether the status of a response may be temporary.
func mayPass(status int) bool {
	return status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented
}

// sendOnce sends r over the appropriate transport and waits for the beginning of the response. It calls late if that takes
// long; the time that r waits for a slot does not count.
func (c *Client) sendOnce(r *http.Request, t target, how sending, late func()) (resp *http.Response, err error) {
	ctx, cancel := context.WithCancelCause(r.Context()) // ends with r's context, which also governs the body
	defer func() {
		if err != nil {
			cancel(nil)
		}
	}()
	r = r.WithContext(ctx)
	var timer atomic.Pointer[time.Timer]
	sent := func() { timer.Store(time.AfterFunc(hedge.Late(), late)) }
	defer func() {
		if timer := timer.Load(); timer != nil {
			timer.Stop()
		}
	}()
	if resp, err = c.sendTo(r, t, how, sent); err != nil {
		return nil, err
	}
	return resp, begin(resp, how.window, cancel)
}

// sendTo sends r. It calls sent when r has a slot.
func (c *Client) sendTo(r *http.Request, t target, how sending, sent func()) (*http.Response, error) {
	if !t.plain {
		return c.sendSecure(r, t, how, sent)
	}
	sent()
	p, err := c.proxy(r.URL)
	if err != nil {
		return nil, err
	}
	// An http proxy receives the whole URL of an unencrypted request, including the name.
	if p != nil && !isSOCKS(p) && c.byName(p, t) {
		if err := c.admitThrough(r.Context(), t); err != nil {
			return nil, err
		}
		return c.forward.RoundTrip(r)
	}
	return c.plain.RoundTrip(r)
}

// begin waits for the first bytes of a response's content, or its end, because a server may send the header and hang. On error,
// the body is closed.
func begin(resp *http.Response, window time.Duration, cancel context.CancelCauseFunc) error {
	if window == 0 || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent {
		return nil
	}
	timer := time.AfterFunc(window, func() { cancel(ErrStalled) })
	first := make([]byte, 512)
	n, err := 0, error(nil)
	for n == 0 && err == nil {
		n, err = resp.Body.Read(first)
	}
	switch stalled := !timer.Stop(); {
	case stalled && n == 0:
		err = fmt.Errorf("%w in %v after the header", ErrStalled, window)
	case n > 0 || err == io.EOF:
		resp.Body = &begun{resp.Body, first[:n], err}
		return nil
	}
	resp.Body.Close()
	return err
}

// begun is a body whose first bytes have been read.
type begun struct {
	io.ReadCloser
	first []byte
	err   error // after the first bytes
}

func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) > 0 {
		n := copy(p, b.first)
		b.first = b.first[n:]
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.ReadCloser.Read(p)
}
