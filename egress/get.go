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
	r, err := r.settled()
	if err != nil {
		return nil, err
	}
	u, _, err := parseURL(r.URL)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	resp, err := c.follow(ctx, r, u)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	guard(ctx, resp, r, c.cfg, cancel)
	return resp, nil
}

// follow asks hop by hop until there is an answer.
func (c *Client) follow(ctx context.Context, r Request, u *url.URL) (_ *http.Response, err error) {
	told := r.secrets()
	defer func() { err = hide(err, told) }()
	for hop := 0; ; hop++ {
		told = append(told, secretsOf(u)...)
		resp, location, err := c.ask(ctx, r, u)
		if err != nil {
			return nil, fmt.Errorf("get %s: %w", Redact(u), err)
		}
		if location == "" || r.Redirects == 0 {
			if err := acceptable(resp, r); err != nil {
				resp.Body.Close()
				return nil, fmt.Errorf("get %s: %w", Redact(u), err)
			}
			return resp, nil
		}
		resp.Body.Close()
		if hop == r.Redirects {
			return nil, fmt.Errorf("get %s: %w: more than %d redirects", Redact(u), ErrAnswer, r.Redirects)
		}
		next, err := redirect(u, location)
		if err != nil {
			return nil, fmt.Errorf("get %s: redirect: %w", Redact(u), err)
		}
		u = next
	}
}

// redirect is where location leads from u.
func redirect(u *url.URL, location string) (*url.URL, error) {
	if len(location) > maxURL {
		return nil, fmt.Errorf("%w: a location of %d bytes", ErrRefused, len(location))
	}
	ref, err := url.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("%w: the location cannot be parsed", ErrRefused)
	}
	next, _, err := settle(u.ResolveReference(ref))
	return next, err
}

// ask sends one request, more than once if need be. The second result is where
// the answer redirects to.
func (c *Client) ask(ctx context.Context, r Request, u *url.URL) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, "", fmt.Errorf("%w: the URL cannot be asked for", ErrRefused)
	}
	req.Header = r.header(u, c.cfg.UserAgent)
	retryable, err := retryablehttp.FromRequest(req)
	if err != nil {
		return nil, "", err
	}
	hop := &hop{wire: wire{c}, budget: r.Budget}
	resp, err := retrying(hop, r.Budget.attempts(r.Attempts)).Do(retryable)
	if err != nil {
		return nil, "", tidy(err)
	}
	// The server may put anything behind the number, also what it was told.
	resp.Status = strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", http.StatusText(resp.StatusCode)))
	location := hop.location
	if location != "" {
		resp.Header.Set("Location", location)
	}
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return resp, location, nil
	}
	return resp, "", nil
}

// hop hides the location of a redirect from package net/http, which would have its
// own way with it, and has what it sends on a budget.
type hop struct {
	wire
	budget   *Budget
	location string
}

func (h *hop) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := h.budget.take(); err != nil {
		return nil, err
	}
	resp, err := h.wire.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	h.location = resp.Header.Get("Location")
	resp.Header.Del("Location")
	return resp, nil
}

// tidy takes the URL out of err, whose query may be secret.
func tidy(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
