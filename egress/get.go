package egress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/hashicorp/go-retryablehttp"
)

// Get asks for r.URL and follows redirects, each a request of its own under the
// same policy. The answer may have any status; its Request.URL is the URL of the
// last hop. The caller closes the body, which ctx governs until then.
//
// The body ends with [ErrTooLarge], [ErrTooSlow] or [io.ErrUnexpectedEOF] rather
// than early. Unless r.Archive is set, gzip is undone; its size is then unknown.
//
// Errors carry the URL without user information and query, and are, by
// [errors.Is], [ErrRefused], [ErrAnswer], the error of ctx, or of the network.
func (c *Client) Get(ctx context.Context, r Request) (*http.Response, error) {
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

// follow asks hop by hop until there is an answer.
func (c *Client) follow(ctx context.Context, r Request, u *url.URL) (_ *http.Response, err error) {
	told := r.secrets()
	defer func() {
		if err != nil {
			err = hide(fmt.Errorf("get %s: %w", Redact(u), err), told)
		}
	}()
	for n := 0; ; n++ {
		told = append(told, secretsOf(u)...)
		resp, location, err := c.ask(ctx, r, u)
		if err != nil {
			return nil, err
		}
		if location == "" || r.Redirects == 0 {
			if err := acceptable(resp, r); err != nil {
				resp.Body.Close()
				return nil, err
			}
			return resp, nil
		}
		resp.Body.Close()
		if n == r.Redirects {
			return nil, fmt.Errorf("%w: more than %d redirects", ErrAnswer, r.Redirects)
		}
		next, err := resolve(u, location)
		if err != nil {
			return nil, fmt.Errorf("redirect: %w", err)
		}
		u = next
	}
}

// ask sends one request, more than once if need be. The second result is where the answer redirects to.
func (c *Client) ask(ctx context.Context, r Request, u *url.URL) (*http.Response, string, error) {
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, "", fmt.Errorf("%w: the URL cannot be asked for", ErrRefused)
	}
	req.Header = r.header(u, c.userAgent)
	h := &hop{client: c, budget: r.Budget, attempts: r.Attempts}
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
		var withURL *url.Error // whose query may be secret
		if errors.As(err, &withURL) {
			err = withURL.Err
		}
		return nil, "", err
	}
	// The server may put anything behind the number, also what it was told.
	resp.Status = strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", http.StatusText(resp.StatusCode)))
	if h.location != "" {
		resp.Header.Set("Location", h.location)
	}
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return resp, h.location, nil
	}
	return resp, "", nil
}

// acceptable returns [ErrAnswer] for a success that is not what r asked for. Other
// answers are the caller's to judge.
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
		return fmt.Errorf("%w: neither Content-Length nor chunks tell where the body ends, so that a broken connection would look like its end", ErrAnswer)
	}
	return nil
}

// isGzip reports whether the body of resp is compressed. Its error is [ErrAnswer] for
// a coding that r did not ask for.
func isGzip(resp *http.Response, r Request) (bool, error) {
	switch coding := resp.Header.Get("Content-Encoding"); coding {
	case "", "identity":
		return false, nil
	case "gzip", "x-gzip":
		if !r.Archive {
			return true, nil
		}
		return false, fmt.Errorf("%w: Content-Encoding %s, for stored bytes; the server must send them as they are", ErrAnswer, coding)
	default:
		return false, fmt.Errorf("%w: Content-Encoding %.40q", ErrAnswer, coding)
	}
}
