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
// which, without a word of the question. It is nil for what may be about that one question: asking it again and
// again must not keep others from the registry.
func trouble(err error) error {
	var (
		a       *fetch.Answered
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
		switch a.Code {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return fmt.Errorf("it answered %s", a.Status)
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

// unreachable reports whether err says that there is no connection to a server, so that no question would have been
// answered.
func unreachable(err error) bool {
	var (
		dns  *net.DNSError
		cert *tls.CertificateVerificationError
		dial *net.OpError
	)
	return errors.As(err, &dns) || errors.As(err, &cert) || errors.As(err, &dial) && dial.Op == "dial"
}
