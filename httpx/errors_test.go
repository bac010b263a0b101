package httpx

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/protocol"
)

// The status of an error decides what a person sees: a client prints nothing of a 404, a 429 or a 5xx, and repeats requests after a
// 429 and a 5xx.
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
		{&modproxy.Ambiguous{Err: errors.New("two tags")}, 424},
		{auth.ErrOffset, 400},
		{modproxy.ErrUnavailable, 502},
		{fmt.Errorf("%w: %w", modproxy.ErrUnavailable, modproxy.ErrNotFound), 502},
		{fmt.Errorf("%w: %w", modproxy.ErrUnavailable, modproxy.ErrInvalid), 502},
		{&modproxy.Error{Op: "versions", Err: fmt.Errorf("x: %w", modproxy.ErrNotFound)}, 404},
		{&modproxy.FetchFailed{Err: modproxy.ErrNotFound}, 424},
		{&modproxy.FetchFailed{Err: modproxy.ErrUnavailable}, 424},
		{&modproxy.FetchFailed{Err: fmt.Errorf("x: %w", &modproxy.Temporary{Err: modproxy.ErrUnavailable})}, 503},
		{&modproxy.FetchFailed{Err: &modproxy.Temporary{Err: modproxy.ErrUnavailable}, Again: time.Now().Add(time.Minute)}, 424},
		{&modproxy.FetchFailed{Err: in(10 * time.Second)}, 503},
		{&modproxy.FetchFailed{Err: in(time.Hour)}, 424},
		{&modproxy.Temporary{Err: modproxy.ErrUnavailable}, 502},
		{&modproxy.FetchFailed{Err: fmt.Errorf("x: %w", &modproxy.NoSpace{Err: modproxy.ErrUnavailable})}, 507},
		{&modproxy.Permanent{Err: errors.New("offline")}, 424},
		{in(10 * time.Second), 503},
		{in(-time.Second), 503},
		{in(time.Hour), 424}, // a client would sleep for as long
		{context.DeadlineExceeded, 504},
		{protocol.Invalid(errors.New("x")), 400},
		{errors.New("nobody knows"), 500},
	} {
		if status := statusOf(c.err); status != c.status {
			t.Errorf("%v: %d; want %d", c.err, status, c.status)
		}
	}
	if wait := retryAfter(in(-time.Second)); wait != time.Second {
		t.Errorf("what has passed is to be tried after %v", wait)
	}
	failed := &modproxy.FetchFailed{Err: in(2 * time.Second), Again: time.Now().Add(10 * time.Second)}
	if wait := retryAfter(failed); wait < 9*time.Second || wait > 10*time.Second {
		t.Errorf("a fetch that is tried again in 10 s is to be requested after %v", wait)
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine("a\nb\x1b[31m\r\x00c\u202e\u009bé"); got != `a b [31m  c\u202e\u009bé` {
		t.Errorf("%q", got)
	}
}

// TestMessageWithin checks that a message keeps its advice at the end, regardless of the length of the rest.
func TestMessageWithin(t *testing.T) {
	text := message{strings.Repeat("ä", 3000), "ask us"}
	for _, n := range []int{100, maxReason, maxText} {
		if got := text.within(n); len(got) > n+len("…") || !strings.HasSuffix(got, "ä…; ask us") || !utf8.ValidString(got) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
	if got := (message{"a", ""}).within(10); got != "a" {
		t.Errorf("%q", got)
	}
}

// A message says when to try again only if that may help. It names the contact unless the request itself is wrong.
func TestMessage(t *testing.T) { synctest.Test(t, testMessage) }

func testMessage(t *testing.T) {
	soon := time.Now().Add(time.Minute)
	failed := func(err error) error { return &modproxy.FetchFailed{Time: time.Now(), Again: soon, Err: err} }
	p := &Responder{Contact: func() string { return "#platform\x1b" }}
	for _, c := range []struct {
		err  error
		path string
		want string
	}{
		{modproxy.ErrDenied, "/v1/modules/a/b/c/versions", "denied; ask #platform "},
		{modproxy.ErrUnauthorized, "/v1/modules/a/b/c/versions", "unauthorized; ask #platform  for a token"},
		{modproxy.ErrUnavailable, "/v1/modules/a/b/c/versions", "unavailable; try again, and if that fails, ask #platform "},
		{modproxy.ErrUnavailable, "/-/readyz", "unavailable"},
		{modproxy.ErrDenied, "/-/mirror/a/b/c/index.json", "denied; ask #platform "},
		{&modproxy.RetryLater{After: time.Now().Add(20 * time.Second), Err: errors.New("busy")}, "/v1/modules/a/b/c/versions", "busy; try again in 20s"},
		{&modproxy.RetryLater{After: time.Now().Add(time.Hour), Err: errors.New("busy")}, "/v1/modules/a/b/c/versions",
			"busy; try again in 1h0m0s, and if that fails, ask #platform "},
		{failed(modproxy.ErrUnavailable), "/v1/modules/a/b/c/1.0.0/download", "unavailable (to be tried again in 1m0s); ask #platform "},
		{failed(&modproxy.PermanentContent{Err: fmt.Errorf("%w: too large", modproxy.ErrDenied)}), "/v1/modules/a/b/c/1.0.0/download", "denied: too large; ask #platform "},
		{failed(fmt.Errorf("%w: it was another", modproxy.ErrChanged)), "/v1/modules/a/b/c/1.0.0/download",
			"content changed: it was another; do not work around this: ask #platform "},
		{failed(&modproxy.NoSpace{Err: errors.New("full")}), "/v1/modules/a/b/c/1.0.0/download", "no space: full (to be tried again in 1m0s); ask #platform "},
		{&modproxy.Ambiguous{Err: errors.New("the tags v1.0.0 and 1.0.0 differ")}, "/v1/modules/a/b/c/1.0.0/download",
			"the tags v1.0.0 and 1.0.0 differ; ask #platform "},
		{protocol.Invalid(errors.New("bad path")), "/v1/modules/a", "bad path"},
		{modproxy.ErrNotFound, "/v1/modules/a/b/c/versions", "not found"},
		{ErrAbsent, "/v1/modules/a/b/c/versions", "not found: no such module or version, or the token does not cover it; ask #platform "},
	} {
		r := httptest.NewRequest("GET", c.path, nil)
		if got := p.message(r, c.err, statusOf(c.err)).within(maxText); got != c.want {
			t.Errorf("%v: %q; want %q", c.err, got, c.want)
		}
	}
}
