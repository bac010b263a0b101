package egress

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// body is the body of a response, within the limits of its request. Its first error is permanent.
type body struct {
	resp   *http.Response // with the body as sent
	r      io.Reader      // reads from the network
	read   atomic.Bool    // Read was called
	unzip  bool           // decompress; becomes false with the first Read
	max    int64
	err    error
	ctx    context.Context
	cancel context.CancelCauseFunc
	url    string
}

func (c *Client) newBody(ctx context.Context, cancel context.CancelCauseFunc, resp *http.Response, r Request) *body {
	sent := *resp
	b := &body{resp: &sent, max: r.MaxBytes, ctx: ctx, cancel: cancel, url: Redact(resp.Request.URL)}
	b.r = b.bounded(newPace(resp.Body, minRate, c.windowOf(r), func() { cancel(ErrTooSlow) }))
	if resp.ContentLength > r.MaxBytes {
		b.fail(fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, resp.ContentLength, r.MaxBytes))
	}
	var err error
	if b.unzip, err = isGzip(resp, r); err != nil {
		b.fail(err)
	}
	if b.unzip {
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength, resp.Uncompressed = -1, true
	}
	return b
}

// windowOf returns the time window in which the body of a response to r must bring minRate. Documents are small, and their
// clients do not wait long; archives and git get the full window.
func (c *Client) windowOf(r Request) time.Duration {
	if r.Archive || r.body != nil {
		return c.window
	}
	return c.window / 3
}

func (b *body) bounded(r io.Reader) io.Reader {
	return http.MaxBytesReader(nil, io.NopCloser(r), b.max)
}

func (b *body) Read(p []byte) (n int, err error) {
	b.read.Store(true)
	if b.err != nil {
		return 0, b.err
	}
	if b.unzip {
		b.unzip = false
		z, err := gzip.NewReader(b.r)
		if err != nil { // io.EOF if the body is empty
			return 0, b.fail(err)
		}
		b.r = b.bounded(z)
	}
	n, err = b.r.Read(p)
	return n, b.fail(err)
}

// fail stores err as the reader receives it.
func (b *body) fail(err error) error {
	if err == io.EOF && b.ctx.Err() != nil {
		// A server that notices the cancelled connection may still write a regular end.
		err = context.Cause(b.ctx)
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, b.max)
	}
	if err != nil && err != io.EOF {
		err = outward(fmt.Errorf("body of %s: %w", b.url, err))
	}
	b.err = err
	return err
}

// Close ends the request. It may be called during Read.
func (b *body) Close() error {
	if !b.read.Load() {
		drop(b.resp)
	}
	b.cancel(nil)
	return b.resp.Body.Close()
}

const (
	maxDropped = 2 << 10                // bytes to read of an unwanted body
	dropTime   = 100 * time.Millisecond // time limit for reading them
)

// drop ends a response with an unwanted body. It reads the rest of a short body: with HTTP/1.1, a connection can be reused only
// after the end of the body.
func drop(resp *http.Response) {
	defer resp.Body.Close()
	if resp.ContentLength > maxDropped {
		return
	}
	late := time.AfterFunc(dropTime, func() { resp.Body.Close() })
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, resp.Body, maxDropped)
}

// pace reads from a network and fails if too few bytes arrive. After a failure it must not be read again. Only the time spent
// waiting for bytes counts: a slow reader does not cause a failure.
type pace struct {
	r      io.Reader     // reads from the network
	need   int64         // bytes in each window
	window time.Duration // of waiting
	abort  func()        // makes a running Read of r return

	got  int64         // bytes in this window
	left time.Duration // waiting time left in this window
}

// newPace requires rate bytes per second, on average over a window, but at least one byte in each.
func newPace(r io.Reader, rate int64, window time.Duration, abort func()) *pace {
	need := max(int64(float64(rate)*window.Seconds()), 1)
	return &pace{r: r, need: need, window: window, left: window, abort: abort}
}

func (p *pace) Read(b []byte) (int, error) {
	patience := p.left
	if p.got >= p.need { // this window has enough bytes, and the next one has not begun
		patience += p.window
	}
	start, timer := time.Now(), time.AfterFunc(patience, p.abort)
	n, err := p.r.Read(b)
	aborted := !timer.Stop()
	if p.left -= time.Since(start); p.left <= 0 && p.got >= p.need {
		p.got, p.left = 0, p.left+p.window
	}
	p.got += int64(n)
	slow := aborted
	if p.left <= 0 {
		slow = slow || p.got < p.need
		p.got, p.left = 0, p.window
	}
	switch {
	case !slow, !aborted && err == io.EOF: // a late but complete body is valid; after an abort, an EOF proves nothing
	case n == 0 && time.Since(start) >= p.window/2:
		err = fmt.Errorf("%w in %v", ErrStalled, p.window)
	default:
		err = fmt.Errorf("%w: less than %d bytes in %v", ErrTooSlow, p.need, p.window)
	}
	return n, err
}
