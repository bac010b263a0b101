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

// body is the body of an answer within the bounds of its request. Its first error stays.
type body struct {
	resp   *http.Response // with the body as it is sent
	r      io.Reader
	read   atomic.Bool // Read was called
	unzip  bool        // before the first byte is read
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

// windowOf returns the time in which the body of an answer to r has to bring minRate. Documents are small, and those that
// want them do not wait for long; git may take its time.
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
		if err != nil { // io.EOF if there is nothing to undo
			return 0, b.fail(err)
		}
		b.r = b.bounded(z)
	}
	n, err = b.r.Read(p)
	return n, b.fail(err)
}

// fail remembers err, as it is told to the reader.
func (b *body) fail(err error) error {
	if err == io.EOF && b.ctx.Err() != nil {
		// A server that sees the connection go may well write a proper end.
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
	maxDropped = 2 << 10                // bytes of a body that is not wanted
	dropTime   = 100 * time.Millisecond // for these
)

// drop ends an answer whose body is not wanted. It reads what is left of a short body: by HTTP/1.1, a connection can be
// used again only after the end of the body.
func drop(resp *http.Response) {
	defer resp.Body.Close()
	if resp.ContentLength > maxDropped {
		return
	}
	late := time.AfterFunc(dropTime, func() { resp.Body.Close() })
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, resp.Body, maxDropped)
}

// pace reads from a network and gives up when too little comes; it is not read again after that. What counts is the
// time spent waiting for bytes: a reader that takes its time costs nothing.
type pace struct {
	r      io.Reader
	need   int64         // bytes in each window
	window time.Duration // of waiting
	abort  func()        // makes a Read of r that is under way return

	got  int64         // in this window
	left time.Duration // of this window
}

// newPace wants rate bytes per second, on average over a window, but one at least.
func newPace(r io.Reader, rate int64, window time.Duration, abort func()) *pace {
	need := max(int64(float64(rate)*window.Seconds()), 1)
	return &pace{r: r, need: need, window: window, left: window, abort: abort}
}

func (p *pace) Read(b []byte) (int, error) {
	patience := p.left
	if p.got >= p.need { // this window has enough, and the next may bring nothing
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
	case !slow, !aborted && err == io.EOF: // late but whole is good; after an abort an end proves nothing
	case n == 0 && time.Since(start) >= p.window/2:
		err = fmt.Errorf("%w in %v", ErrStalled, p.window)
	default:
		err = fmt.Errorf("%w: less than %d bytes in %v", ErrTooSlow, p.need, p.window)
	}
	return n, err
}
