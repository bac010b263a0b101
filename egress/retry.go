package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

const (
	retryMin   = 150 * time.Millisecond // before the second attempt; longer each time
	retryMax   = 300 * time.Millisecond
	maxWaiting = 5 * time.Second // for what a server says in Retry-After
)

// hop is one request, and the attempts at it.
type hop struct {
	client   *Client
	budget   *Budget
	attempts int    // that are left
	location string // of a redirect
}

// RoundTrip makes one attempt. It hides the location of a redirect from package
// net/http, which would follow it.
func (h *hop) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := h.budget.take(); err != nil {
		return nil, err
	}
	h.attempts--
	resp, err := h.client.roundTrip(r)
	if err != nil {
		return nil, err
	}
	h.location = resp.Header.Get("Location")
	resp.Header.Del("Location")
	return resp, nil
}

// again decides whether there is another attempt. It closes the body of an answer
// that is dropped, unread, because that may take long.
func (h *hop) again(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if h.attempts <= 0 || h.budget.Spent() || ctx.Err() != nil {
		return false, nil
	}
	if err != nil {
		return MayPass(err), nil
	}
	wait, told := retryAfter(resp)
	if resp.StatusCode == http.StatusNotImplemented || resp.StatusCode < 500 && !told || wait > maxWaiting {
		return false, nil
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false, nil
	}
	resp.Body.Close()
	resp.Body = http.NoBody
	return true, nil
}

// MayPass reports whether the next attempt may do better than err, an error of this package.
func MayPass(err error) bool {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.Is(err, ErrRefused), errors.Is(err, ErrTooLarge), errors.Is(err, ErrTooSlow), errors.Is(err, ErrAnswer), errors.As(err, &cert):
		return false
	case errors.As(err, &dns):
		return !dns.IsNotFound
	}
	return true
}

// backoff returns how long to wait: what the server says, else longer each time.
func backoff(least, most time.Duration, attempt int, resp *http.Response) time.Duration {
	if resp != nil {
		if wait, told := retryAfter(resp); told {
			return wait
		}
	}
	return retryablehttp.LinearJitterBackoff(least, most, attempt, resp)
}

// retryAfter returns what an answer that means a wait says about it.
func retryAfter(resp *http.Response) (wait time.Duration, told bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	return ParseRetryAfter(resp.Header.Get("Retry-After"))
}

// ParseRetryAfter reads the value of a Retry-After header, seconds or a date
// (https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3).
func ParseRetryAfter(value string) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0), true
	}
	return 0, false
}
