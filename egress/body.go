package egress

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
)

// acceptable is [ErrAnswer] for a success that is not what r asked for. Other
// answers are the caller's to judge.
func acceptable(resp *http.Response, r Request) error {
	if resp.StatusCode/100 != 2 {
		return nil
	}
	if resp.StatusCode == http.StatusPartialContent && r.Header.Get("Range") == "" {
		return fmt.Errorf("%w: a part of the body (status 206)", ErrAnswer)
	}
	if err := codingError(resp, r); err != nil {
		return err
	}
	if r.Archive && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 {
		return fmt.Errorf("%w: neither Content-Length nor chunks tell where the body ends, so that a broken connection would look like its end", ErrAnswer)
	}
	return nil
}

func codingError(resp *http.Response, r Request) error {
	switch coding := resp.Header.Get("Content-Encoding"); coding {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		if !r.Archive {
			return nil
		}
		return fmt.Errorf("%w: Content-Encoding %s, for stored bytes; the server must send them as they are", ErrAnswer, coding)
	default:
		return fmt.Errorf("%w: Content-Encoding %.40q", ErrAnswer, coding)
	}
}

// guard puts the bounds of r around the body of resp.
func guard(ctx context.Context, resp *http.Response, r Request, cfg Config, cancel context.CancelCauseFunc) {
	url := Redact(resp.Request.URL)
	b := &body{close: resp.Body.Close, ctx: ctx, cancel: cancel, url: url}
	slow := newPace(resp.Body, cfg.MinRate, cfg.RateWindow, func() { cancel(ErrTooSlow) })
	b.r = &capped{r: slow, left: r.MaxBytes, max: r.MaxBytes, declared: resp.ContentLength}
	if err := codingError(resp, r); err != nil {
		b.r = broken{err}
	} else if coding := resp.Header.Get("Content-Encoding"); coding == "gzip" || coding == "x-gzip" {
		b.r = &capped{r: &unzip{src: b.r}, left: r.MaxBytes, max: r.MaxBytes, declared: -1}
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
		resp.Uncompressed = true
	}
	resp.Body = b
}

// body is a guarded body.
type body struct {
	r      io.Reader
	close  func() error
	ctx    context.Context
	cancel context.CancelCauseFunc
	url    string
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err == io.EOF && b.ctx.Err() != nil {
		// A server that sees the connection go may well write a proper end.
		err = context.Cause(b.ctx)
	}
	if err != nil && err != io.EOF {
		err = fmt.Errorf("body of %s: %w", b.url, err)
	}
	return n, err
}

func (b *body) Close() error {
	b.cancel(nil)
	return b.close()
}

// capped gives at most max bytes of r, and [ErrTooLarge] if there are more.
type capped struct {
	r         io.Reader
	left, max int64
	declared  int64 // the length that was announced; negative if none was
}

func (c *capped) Read(p []byte) (int, error) {
	if c.declared > c.max {
		return 0, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, c.declared, c.max)
	}
	if int64(len(p)) > c.left+1 {
		p = p[:c.left+1]
	}
	n, err := c.r.Read(p)
	if int64(n) > c.left {
		c.declared = c.max + 1 // for the next Read
		return int(c.left), fmt.Errorf("%w: more than %d bytes", ErrTooLarge, c.max)
	}
	c.left -= int64(n)
	return n, err
}

// unzip reads gzip; the empty body of an answer that has none stays empty.
type unzip struct {
	src io.Reader
	z   *gzip.Reader
}

func (u *unzip) Read(p []byte) (int, error) {
	if u.z == nil {
		z, err := gzip.NewReader(u.src)
		if err != nil {
			return 0, err
		}
		u.z = z
	}
	return u.z.Read(p)
}

// broken is a body that cannot be read.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }
