package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// Get requests r.URL and follows redirects. Each redirect is a separate request under the same policy. The response may have
// any status; its Request.URL is the URL of the last hop. The caller closes the body. The end of ctx ends the body, too.
//
// If a body is incomplete, its last Read returns [ErrTooLarge], [ErrTooSlow], [io.ErrUnexpectedEOF] or another error, and never
// [io.EOF]. Unless r.Archive is set, gzip is decompressed; the size is then unknown.
//
// Errors contain the URL without user information and query. By [errors.Is], they are [ErrRefused], [ErrAnswer], the error of
// ctx, or that of the network.
func (c *Client) Get(ctx context.Context, r Request) (*http.Response, error) {
	return c.do(ctx, r)
}

// do sends r and limits the body of the response.
func (c *Client) do(ctx context.Context, r Request) (*http.Response, error) {
	r, err := r.checked()
	if err != nil {
		return nil, err
	}
	u, err := resolve(nil, r.URL)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	resp, err := c.follow(ctx, r, u)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	resp.Body = c.newBody(ctx, cancel, resp, r)
	return resp, nil
}

// follow sends requests, hop by hop, until a response is not a redirect.
func (c *Client) follow(ctx context.Context, r Request, u *url.URL) (_ *http.Response, err error) {
	told := r.secrets()
	defer func() {
		if err != nil {
			err = outward(hide(fmt.Errorf("%s %s: %w", strings.ToLower(r.method()), Redact(u), err), told))
		}
	}()
	for n := 0; ; n++ {
		told = append(told, secretsOf(u)...)
		resp, err := c.ask(ctx, r, u)
		if err != nil {
			return nil, err
		}
		location := resp.Header.Get("Location")
		if location == "" || r.Redirects == 0 || !slices.Contains(redirects, resp.StatusCode) {
			if err := acceptable(resp, r); err != nil {
				resp.Body.Close()
				return nil, err
			}
			return resp, nil
		}
		drop(resp)
		if n == r.Redirects {
			return nil, fmt.Errorf("%w: more than %d redirects", ErrAnswer, r.Redirects)
		}
		next, err := resolve(u, location)
		if err != nil {
			return nil, fmt.Errorf("redirect: %w", err)
		}
		if r.CheckRedirect != nil {
			if err := r.CheckRedirect(u, next); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrRefused, err)
			}
		}
		u = next
	}
}

var redirects = []int{301, 302, 303, 307, 308} // status codes

// ask sends the request of one hop, with retries.
func (c *Client) ask(ctx context.Context, r Request, u *url.URL) (*http.Response, error) {
	req, err := retryablehttp.NewRequestWithContext(ctx, r.method(), u.String(), r.body)
	if err != nil {
		return nil, fmt.Errorf("%w: the URL cannot be asked for", ErrRefused)
	}
	req.Header = r.header(u, c.cfg.UserAgent)
	h := &hop{client: c, how: sending{archive: r.Archive, window: c.windowOf(r)}, budget: r.Budget, attempts: r.Attempts}
	if !r.NoHedging {
		h.how.more = func() bool { return r.Budget.take() == nil }
	}
	retrying := &retryablehttp.Client{
		HTTPClient:   &http.Client{Transport: h},
		RetryMax:     r.Attempts,
		RetryWaitMin: retryMin,
		RetryWaitMax: retryMax,
		CheckRetry:   h.again,
		Backoff:      backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	resp, err := retrying.Do(req)
	if err != nil {
		if withURL := (*url.Error)(nil); errors.As(err, &withURL) {
			err = withURL.Err // without the query of the URL, which may be secret
		}
		return nil, err
	}
	// The server chooses the text after the status code, and may repeat a secret of the request there.
	resp.Status = strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", http.StatusText(resp.StatusCode)))
	if h.location != "" {
		resp.Header.Set("Location", h.location)
	}
	return resp, nil
}

// acceptable returns [ErrAnswer] for a successful response that does not fit r. The caller judges other responses.
func acceptable(resp *http.Response, r Request) error {
	if resp.StatusCode/100 != 2 {
		return nil
	}
	if resp.StatusCode == http.StatusPartialContent && r.Header.Get("Range") == "" {
		return fmt.Errorf("%w: a part of the body (status 206)", ErrAnswer)
	}
	if _, err := isGzip(resp, r); err != nil {
		return err
	}
	if r.Archive && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 {
		return fmt.Errorf("%w: neither Content-Length nor chunks tell where the body ends, "+
			"so that a broken connection would look like its end", ErrAnswer)
	}
	return nil
}

// isGzip reports whether the body of resp is compressed. If r did not request the coding, the error is [ErrAnswer].
func isGzip(resp *http.Response, r Request) (bool, error) {
	switch coding := resp.Header.Get("Content-Encoding"); coding {
	case "", "identity":
		return false, nil
	case "gzip", "x-gzip":
		if !r.Archive {
			return true, nil
		}
		return false, fmt.Errorf("%w: Content-Encoding %s, for stored bytes; the server must send them as they are",
			ErrAnswer, coding)
	default:
		return false, fmt.Errorf("%w: Content-Encoding %.40q", ErrAnswer, coding)
	}
}

const (
	retryMin   = 100 * time.Millisecond // before the second attempt; grows with each attempt
	retryMax   = 200 * time.Millisecond
	maxWaiting = 5 * time.Second // the longest Retry-After to wait for
)

// hop is the request of one hop with its attempts.
type hop struct {
	client   *Client
	how      sending
	budget   *Budget
	attempts int    // attempts left
	location string // of a redirect
}

// RoundTrip makes one attempt. It hides the location of a redirect from package net/http, which would follow it.
func (h *hop) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := h.budget.take(); err != nil {
		return nil, err
	}
	h.attempts--
	resp, err := h.client.roundTrip(r, h.how)
	if err != nil {
		return nil, err
	}
	h.location = resp.Header.Get("Location")
	resp.Header.Del("Location")
	return resp, nil
}

// again decides whether to make another attempt. It drops the body of a response that is not returned.
func (h *hop) again(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if h.attempts <= 0 || h.budget.Spent() || ctx.Err() != nil {
		return false, nil
	}
	if err != nil {
		return MayPass(err), nil
	}
	wait, told := retryAfter(resp)
	deadline, ends := ctx.Deadline()
	if !mayPass(resp.StatusCode) || resp.StatusCode < 500 && !told ||
		wait > maxWaiting || ends && time.Until(deadline) <= wait {
		return false, nil
	}
	drop(resp)
	resp.Body = http.NoBody
	return true, nil
}

// MayPass reports whether err, an error of this package, may be temporary, so that a retry may succeed.
func MayPass(err error) bool {
	var dns *net.DNSError
	switch {
	case errors.Is(err, ErrStalled):
		return true
	case errors.Is(err, ErrRefused), errors.Is(err, ErrTooLarge), errors.Is(err, ErrTooSlow), errors.Is(err, ErrAnswer),
		errors.As(err, new(*tls.CertificateVerificationError)):
		return false
	case errors.As(err, &dns):
		return !dns.IsNotFound
	}
	return true
}

// backoff returns the time to wait: that of Retry-After, or else one that grows with each attempt.
func backoff(least, most time.Duration, attempt int, resp *http.Response) time.Duration {
	if wait, told := retryAfter(resp); told {
		return wait
	}
	return retryablehttp.LinearJitterBackoff(least, most, attempt, resp)
}

// retryAfter returns the waiting time that a response with status 429 or 503 requests.
func retryAfter(resp *http.Response) (wait time.Duration, told bool) {
	if resp == nil || resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	return ParseRetryAfter(resp.Header.Get("Retry-After"))
}

// ParseRetryAfter parses the value of a Retry-After header, seconds or a date
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

// Request is a request to a server, for [Client.Get] or [Client.Post].
type Request struct {
	URL string
	// Header is sent to every hop, together with User-Agent and Accept-Encoding. A request with a credential, Cookie, Referer, Host,
	// Accept-Encoding or Connection in it is not sent, and is an error.
	Header http.Header
	// Credentials are each sent to their own origin only, also after redirects. The first one of an origin counts.
	Credentials []Credential
	// Redirects is the number of redirects to follow, at most 20. With 0 a redirect is the response. One too many is
	// [ErrAnswer].
	Redirects int
	// CheckRedirect, unless nil, is called before a redirect is followed. After its error, the request fails with
	// that error and [ErrRefused].
	CheckRedirect func(from, to *url.URL) error
	// Budget, unless nil, limits the total of sent requests of all Requests that share it. Exceeding it is [ErrAnswer].
	Budget *Budget
	// NoHedging prevents hedging of this request: the caller hedges itself.
	NoHedging bool
	// Attempts is the number of attempts for each hop, at most 10; 0 means 1. Another attempt follows after a failure without a
	// response, and after a 5xx other than 501, or a 429 with a Retry-After. A Retry-After of up to five seconds is waited for; a
	// response with a longer one is returned.
	Attempts int
	// MaxBytes limits the body, both as sent and as decoded; 0 means 1 MiB. A longer body is [ErrTooLarge].
	MaxBytes int64
	// Archive requests the bytes as stored, without a content coding, on a connection of its own. A response without
	// Content-Length and without chunks is [ErrAnswer]: a broken connection would look like the end of its body.
	Archive bool

	body any // of [Client.Post], a []byte; nil for [Client.Get]
}

// Credential is sent to one origin only.
type Credential struct {
	Origin        string // as [Origin] returns it: https://host or https://host:port
	Authorization Secret // the whole value of the Authorization header
}

// Budget is the number of requests that may be sent, including redirects, retries and hedges. It is not safe for concurrent
// use, but the requests of one [Client.Get] may use it.
type Budget struct{ most, left int }

// NewBudget returns a Budget for most requests.
func NewBudget(most int) *Budget { return &Budget{most, most} }

// Spent reports whether the budget is used up.
func (b *Budget) Spent() bool { return b != nil && b.left == 0 }

func (b *Budget) take() error {
	if b.Spent() {
		return fmt.Errorf("%w: more than %d redirects and requests for one location", ErrAnswer, b.most)
	}
	if b != nil {
		b.left--
	}
	return nil
}

// reserved are the fields that callers must not set: credentials, fields that reveal other servers, and fields set by this
// package.
var reserved = []string{"Authorization", "Proxy-Authorization", "Cookie", "Referer", "Host",
	"Accept-Encoding", "Connection"}

// checked returns r with its defaults. The error is always a mistake of the caller.
func (r Request) checked() (Request, error) {
	for name := range r.Header {
		if slices.Contains(reserved, http.CanonicalHeaderKey(name)) {
			return r, fmt.Errorf("egress: a request's header must not have %s", name)
		}
	}
	for _, cred := range r.Credentials {
		if u, err := url.Parse(cred.Origin); err != nil || cred.Origin == "" || Origin(u) != cred.Origin {
			return r, errors.New("egress: the origin of a credential: want https://host or https://host:port, in lower case")
		}
	}
	if r.MaxBytes < 0 || r.Redirects < 0 || r.Attempts < 0 {
		return r, errors.New("egress: a bound of a request is negative")
	}
	r.MaxBytes = min(cmp.Or(r.MaxBytes, 1<<20), math.MaxInt64-1)
	r.Redirects = min(r.Redirects, 20)
	r.Attempts = min(max(r.Attempts, 1), 10)
	return r, nil
}

// header returns the header for a request to u.
func (r Request) header(u *url.URL, userAgent string) http.Header {
	h := http.Header{}
	maps.Copy(h, r.Header)
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", userAgent)
	}
	if r.body != nil {
		h["Idempotency-Key"] = nil // tells package net/http that the request is idempotent; nil is not sent
	}
	h.Set("Accept-Encoding", "gzip")
	if r.Archive {
		h.Set("Accept-Encoding", "identity")
	}
	origin := Origin(u)
	i := slices.IndexFunc(r.Credentials, func(c Credential) bool { return c.Origin == origin })
	if i >= 0 && !r.Credentials[i].Authorization.IsZero() {
		h.Set("Authorization", r.Credentials[i].Authorization.Reveal())
	}
	return h
}
