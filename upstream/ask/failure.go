package ask

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

// Failure classifies err, the outcome of a question. If err shows that the server is unavailable, why is the reason,
// without details of the question; ofAll reports whether every question would fail for this reason. Otherwise why is
// nil: the failure may concern only this question, and repeating this question must not keep others from the server.
func Failure(err error) (why error, ofAll bool) {
	var (
		a    *fetch.Answered
		dns  *net.DNSError
		cert *tls.CertificateVerificationError
		conn *net.OpError
		late net.Error
		none *fetch.NoAnswer
	)
	switch {
	case errors.As(err, &a):
		switch a.Code {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return fmt.Errorf("it answered %d %s", a.Code, http.StatusText(a.Code)), a.Code == http.StatusTooManyRequests
		}
	case errors.As(err, &none):
		return errors.New(none.Why), false
	case errors.As(err, &dns):
		return errors.New(egress.LookupReason(dns)), true
	case errors.As(err, &cert):
		return fetch.Untrusted(cert.Err), true
	case errors.As(err, &conn) && (conn.Op != "dial" || conn.Addr == nil):
		return conn.Err, conn.Op == "dial"
	case errors.As(err, &conn) && errors.Is(conn.Err, syscall.ECONNREFUSED):
		return fmt.Errorf("connection refused by %s", conn.Addr), true
	case errors.As(err, &conn):
		return fmt.Errorf("%s: %w", conn.Addr, conn.Err), true
	case errors.Is(err, errSlow), errors.Is(err, egress.ErrTooSlow),
		errors.Is(err, context.DeadlineExceeded), errors.As(err, &late) && late.Timeout():
		return errSlow, false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return errors.New("it ended the connection"), false
	}
	return nil, false
}
