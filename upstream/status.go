package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
)

// refusal returns what an answer with an unexpected status means.
func (c *Client) refusal(host string, res *http.Response) error {
	advice := "set a token for upstream " + host
	if !c.cfg.Hosts[host].Token.IsZero() {
		advice = "the token that is set for upstream " + host + " does not open it"
	}
	return fetch.Refusal(res, egress.Redact(res.Request.URL), advice)
}

// trouble returns what err, the outcome of a question, says about the registry: that it is in trouble, and in
// which, without a word of the question; of all says that any question would have met it. It is nil for what may be
// about that one question: asking it again and again must not keep others from the registry.
func trouble(err error) (why error, ofAll bool) {
	var (
		a    *fetch.Answered
		dns  *net.DNSError
		cert *tls.CertificateVerificationError
		conn *net.OpError
		late net.Error
	)
	switch {
	case errors.Is(err, errLate):
		return errSlow, false
	case errors.As(err, &a):
		switch a.Code {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return fmt.Errorf("it answered %s", a.Status), a.Code == http.StatusTooManyRequests
		}
	case errors.As(err, &dns):
		return errors.New(dns.Err), true
	case errors.As(err, &cert):
		return cert.Err, true
	case errors.As(err, &conn) && (conn.Op != "dial" || conn.Addr == nil):
		return conn.Err, conn.Op == "dial"
	case errors.As(err, &conn) && errors.Is(conn.Err, syscall.ECONNREFUSED):
		return fmt.Errorf("connection refused by %s", conn.Addr), true
	case errors.As(err, &conn):
		return fmt.Errorf("%s: %w", conn.Addr, conn.Err), true
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &late) && late.Timeout(), errors.Is(err, egress.ErrTooSlow):
		return errSlow, false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return errors.New("it ended the connection"), false
	}
	return nil, false
}
