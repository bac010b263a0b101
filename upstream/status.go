package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/upstream/egress"
)

// refusal is what an answer with another status than the expected ones means.
// Only 404 and 410 say that there is no such thing.
func (c *Client) refusal(host string, res *http.Response) error {
	where := egress.Redact(res.Request.URL)
	switch status := res.StatusCode; {
	case status == http.StatusNotFound || status == http.StatusGone:
		return fmt.Errorf("%w: %s answered %s", modproxy.ErrNotFound, where, res.Status)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		advice := "set a token for upstream " + host
		if !c.cfg.Hosts[host].Token.IsZero() {
			advice = "the token that is set for upstream " + host + " does not open it"
		}
		return fmt.Errorf("%w: %s answered %s: %s", modproxy.ErrDenied, where, res.Status, advice)
	case status == http.StatusTooManyRequests || status >= 500:
		err := fmt.Errorf("%w: %s answered %s", modproxy.ErrUnavailable, where, res.Status)
		after, ok := retryAfter(res.Header.Get("Retry-After"), time.Now())
		if !ok {
			return err
		}
		return &modproxy.RetryLater{After: after, Err: err}
	}
	return fmt.Errorf("%w: %s answered %s", modproxy.ErrUnavailable, where, res.Status)
}

// retryAfter reads a Retry-After header (RFC 9110, 10.2.3): seconds or a date.
// What is beyond an hour counts as an hour.
func retryAfter(s string, now time.Time) (time.Time, bool) {
	var d time.Duration
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		d = time.Duration(n) * time.Second
	} else if t, err := http.ParseTime(s); err == nil {
		d = t.Sub(now)
	} else {
		return time.Time{}, false
	}
	if d <= 0 {
		return time.Time{}, false
	}
	return now.Add(min(d, maxRetry)), true
}

// outgoing gives an error of package egress its meaning here.
func outgoing(err error) error {
	switch {
	case errors.Is(err, egress.ErrRefused):
		return fmt.Errorf("%w: %w", modproxy.ErrDenied, err)
	case errors.Is(err, egress.ErrTooLarge):
		return fmt.Errorf("%w: %w", modproxy.ErrInvalid, err)
	}
	return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
}
