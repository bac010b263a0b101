package egress

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// body is the body of an answer within the bounds of its request. Its first error stays.
type body struct {
	io.Closer
	r      io.Reader
	unzip  bool // before the first byte is read
	max    int64
	err    error
	ctx    context.Context
	cancel context.CancelCauseFunc
	url    string
}

func (c *Client) newBody(ctx context.Context, cancel context.CancelCauseFunc, resp *http.Response, r Request) *body {
	b := &body{Closer: resp.Body, max: r.MaxBytes, ctx: ctx, cancel: cancel, url: Redact(resp.Request.URL)}
	b.r = b.bounded(newPace(resp.Body, minRate, c.window, func() { cancel(ErrTooSlow) }))
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

func (b *body) bounded(r io.Reader) io.Reader {
	return http.MaxBytesReader(nil, io.NopCloser(r), b.max)
}

func (b *body) Read(p []byte) (n int, err error) {
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
		err = fmt.Errorf("body of %s: %w", b.url, err)
	}
	b.err = err
	return err
}

// Close ends the request.
func (b *body) Close() error {
	b.cancel(nil)
	return b.Closer.Close()
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
	if slow && (aborted || err != io.EOF) { // late but whole is good; after an abort an end proves nothing
		err = fmt.Errorf("%w: less than %d bytes in %v", ErrTooSlow, p.need, p.window)
	}
	return n, err
}
