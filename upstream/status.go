package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
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
		err := &answered{where, res.Status, status}
		after, ok := retryAfter(res.Header.Get("Retry-After"), time.Now())
		if !ok {
			return err
		}
		return &modproxy.RetryLater{After: after, Err: err}
	}
	return &answered{where, res.Status, res.StatusCode}
}

// answered is [modproxy.ErrUnavailable]: an answer that is not one to the question.
type answered struct {
	where, status string
	code          int
}

func (a *answered) Error() string {
	return fmt.Sprintf("%v: %s answered %s", modproxy.ErrUnavailable, a.where, a.status)
}

func (a *answered) Unwrap() error { return modproxy.ErrUnavailable }

// trouble is what err, the outcome of a question, says about the registry: that it
// is in trouble, and in which, without a word of the question. It is nil for what
// may be about that one question: whoever asks it again and again must not make
// others think ill of the registry.
func trouble(err error) error {
	var (
		a       *answered
		dns     *net.DNSError
		dial    *net.OpError
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		late    net.Error
	)
	switch {
	case errors.Is(err, errLate):
		return errSlow
	case errors.As(err, &a):
		switch a.code {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return fmt.Errorf("it answered %s", a.status)
		}
		return nil
	case errors.As(err, &dns):
		return errors.New(dns.Err)
	case errors.As(err, &unknown):
		return unknown
	case errors.As(err, &name):
		return name
	case errors.As(err, &invalid):
		return invalid
	case errors.As(err, &dial):
		switch {
		case dial.Op != "dial" || dial.Addr == nil:
			return dial.Err
		case errors.Is(dial.Err, syscall.ECONNREFUSED):
			return fmt.Errorf("connection refused by %s", dial.Addr)
		}
		return fmt.Errorf("%s: %w", dial.Addr, dial.Err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &late) && late.Timeout(), errors.Is(err, egress.ErrTooSlow):
		return errSlow
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return errors.New("it ended the connection")
	}
	return nil
}

// unreachable reports whether err says that there is no connection to a server, so
// that no question would have been answered.
func unreachable(err error) bool {
	var (
		dns  *net.DNSError
		cert *tls.CertificateVerificationError
		dial *net.OpError
	)
	return errors.As(err, &dns) || errors.As(err, &cert) || errors.As(err, &dial) && dial.Op == "dial"
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
