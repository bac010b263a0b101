package proxy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// What a person sees of an error depends on its status: a client shows nothing of
// a 404, a 429 or a 5xx, and tries 429 and 5xx again.
func TestStatusOf(t *testing.T) {
	in := func(d time.Duration) error {
		return &modproxy.RetryLater{After: time.Now().Add(d), Err: modproxy.ErrUnavailable}
	}
	for _, c := range []struct {
		err    error
		status int
	}{
		{modproxy.ErrNotFound, 404},
		{modproxy.ErrDenied, 403},
		{modproxy.ErrUnauthorized, 401},
		{modproxy.ErrChanged, 409},
		{modproxy.ErrInvalid, 424},
		{auth.ErrOffset, 400},
		{modproxy.ErrUnavailable, 502},
		{fmt.Errorf("%w: %w", modproxy.ErrUnavailable, modproxy.ErrNotFound), 502},
		{fmt.Errorf("%w: %w", modproxy.ErrUnavailable, modproxy.ErrInvalid), 502},
		{&modproxy.Error{Op: "versions", Err: fmt.Errorf("x: %w", modproxy.ErrNotFound)}, 404},
		{&modproxy.FetchFailed{Err: modproxy.ErrNotFound}, 424},
		{&modproxy.FetchFailed{Err: modproxy.ErrUnavailable}, 424},
		{&modproxy.FetchFailed{Err: fmt.Errorf("x: %w", &modproxy.NoSpace{Err: modproxy.ErrUnavailable})}, 507},
		{&modproxy.Lasting{Err: errors.New("offline")}, 424},
		{in(10 * time.Second), 503},
		{in(-time.Second), 503},
		{in(time.Hour), 424}, // a client would sleep for as long
		{context.DeadlineExceeded, 504},
		{invalid(errors.New("x")), 400},
		{errors.New("nobody knows"), 500},
	} {
		if status := statusOf(c.err); status != c.status {
			t.Errorf("%v: %d; want %d", c.err, status, c.status)
		}
	}
	if wait := retryAfter(in(-time.Second)); wait != time.Second {
		t.Errorf("what has passed is to be tried after %v", wait)
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
