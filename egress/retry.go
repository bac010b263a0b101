package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

const (
	retryMin = 200 * time.Millisecond
	retryMax = 5 * time.Second
)

// retrying is a client that asks up to attempts times over rt. It never follows a
// redirect and keeps no cookies.
func retrying(rt http.RoundTripper, attempts int) *retryablehttp.Client {
	return &retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport:     rt,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		RetryMax:     attempts - 1,
		RetryWaitMin: retryMin,
		RetryWaitMax: retryMax,
		CheckRetry:   newRetryCheck(attempts),
		Backoff:      backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
}

// newRetryCheck counts attempts, so that the body of the last answer is not taken
// for one that is dropped.
func newRetryCheck(attempts int) retryablehttp.CheckRetry {
	return func(ctx context.Context, resp *http.Response, err error) (bool, error) {
		attempts--
		if attempts <= 0 || ctx.Err() != nil {
			return false, nil
		}
		if err != nil {
			return MayPass(err), nil
		}
		if !worthAnother(ctx, resp) {
			return false, nil
		}
		resp.Body.Close() // unread: it may take its time
		resp.Body = http.NoBody
		return true, nil
	}
}

// MayPass reports whether the next attempt may do better than err, an error of this
// package.
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

// worthAnother reports whether resp is one to ask again after, and whether that
// can be done in the time that is left.
func worthAnother(ctx context.Context, resp *http.Response) bool {
	wait, told := retryAfter(resp)
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		if !told {
			return false
		}
	case resp.StatusCode < 500, resp.StatusCode == http.StatusNotImplemented:
		return false
	}
	if wait > retryMax {
		return false
	}
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) > wait
}

// backoff is how long to wait: what the server says, else longer each time.
func backoff(least, most time.Duration, attempt int, resp *http.Response) time.Duration {
	if resp != nil {
		if wait, told := retryAfter(resp); told {
			return wait
		}
	}
	wait := min(least<<min(attempt, 8), most)
	return wait/2 + rand.N(wait/2+1)
}

// retryAfter is what the server says about when to come back
// (https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3).
func retryAfter(resp *http.Response) (time.Duration, bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	return ParseRetryAfter(resp.Header.Get("Retry-After"))
}

// ParseRetryAfter reads the value of a Retry-After header: seconds, or a date.
func ParseRetryAfter(value string) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0), true
	}
	return 0, false
}
