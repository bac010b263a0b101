package proxy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
)

// What a person sees of an error depends on its status: a client shows nothing of
// a 404, a 429 or a 5xx, and tries 429 and 5xx again.
func TestStatusOf(t *testing.T) {
	now := time.Now()
	in := func(d time.Duration) error {
		return &modproxy.RetryLater{After: now.Add(d), Err: modproxy.ErrUnavailable}
	}
	for _, c := range []struct {
		err    error
		status int
		wait   time.Duration
	}{
		{modproxy.ErrNotFound, 404, 0},
		{modproxy.ErrDenied, 403, 0},
		{modproxy.ErrUnauthorized, 401, 0},
		{modproxy.ErrChanged, 409, 0},
		{modproxy.ErrInvalid, 424, 0},
		{modproxy.ErrUnavailable, 502, 0},
		{fmt.Errorf("%w: %w", modproxy.ErrUnavailable, modproxy.ErrNotFound), 502, 0},
		{fmt.Errorf("%w: %w", modproxy.ErrUnavailable, modproxy.ErrInvalid), 502, 0},
		{&modproxy.Error{Op: "versions", Err: fmt.Errorf("x: %w", modproxy.ErrNotFound)}, 404, 0},
		{&modproxy.FetchFailed{Err: modproxy.ErrNotFound}, 424, 0},
		{&modproxy.FetchFailed{Err: modproxy.ErrUnavailable}, 424, 0},
		{&modproxy.FetchFailed{Err: fmt.Errorf("x: %w", &modproxy.NoSpace{Err: modproxy.ErrUnavailable})}, 507, 0},
		{&modproxy.Lasting{Err: errors.New("offline")}, 424, 0},
		{in(10 * time.Second), 503, 10 * time.Second},
		{in(-time.Second), 503, time.Second},
		{in(time.Hour), 424, 0}, // a client would sleep for as long
		{context.DeadlineExceeded, 504, 0},
		{invalid(errors.New("x")), 400, 0},
		{errors.New("nobody knows"), 500, 0},
	} {
		if status, wait := statusOf(c.err, now); status != c.status || wait != c.wait {
			t.Errorf("%v: %d, %v; want %d, %v", c.err, status, wait, c.status, c.wait)
		}
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine("a\nb\x1b[31m\r\x00c"); got != "a b [31m  c" {
		t.Errorf("%q", got)
	}
	if got := oneLine(string(make([]byte, 5000))); len(got) > 1100 {
		t.Errorf("%d bytes", len(got))
	}
}
