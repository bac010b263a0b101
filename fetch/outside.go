package fetch

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/internal/retry"
)

// Outgoing converts err, an error of package egress, to an error of package modproxy: [modproxy.ErrDenied] for an
// [egress.ErrRefused], [modproxy.ErrInvalid] for an [egress.ErrTooLarge], otherwise [modproxy.ErrUnavailable]. It returns nil, and
// errors that are already of package modproxy, unchanged.
func Outgoing(err error) error {
	switch {
	case err == nil, errors.Is(err, modproxy.ErrDenied), errors.Is(err, modproxy.ErrInvalid),
		errors.Is(err, modproxy.ErrUnavailable):
		return err
	case errors.Is(err, egress.ErrRefused):
		return fmt.Errorf("%w: %w", modproxy.ErrDenied, err)
	case errors.Is(err, egress.ErrTooLarge):
		return fmt.Errorf("%w: %w", modproxy.ErrInvalid, err)
	}
	return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, Untrusted(err))
}

// Authority is the text that [Untrusted] adds to an error about a certificate of an unknown authority. It begins with a space.
const Authority = " (operator: egress.ca_file can name the certificate authority)"

// Untrusted adds [Authority] to err if err is about a certificate of an unknown authority. It returns other errors unchanged.
func Untrusted(err error) error {
	if !errors.As(err, new(x509.UnknownAuthorityError)) {
		return err
	}
	return fmt.Errorf("%w%s", err, Authority)
}

// Answered is a [modproxy.ErrUnavailable] for an answer with an unexpected status.
type Answered struct {
	Where, Status string
	Code          int
	Host          string // the host that answered, with a port as in a URL
}

func (a *Answered) Error() string {
	return fmt.Sprintf("%v: %s answered %s", modproxy.ErrUnavailable, a.Where, a.Status)
}

func (a *Answered) Unwrap() error { return modproxy.ErrUnavailable }

// NoAnswer is a [modproxy.ErrUnavailable] about a server that did not answer a program, such as git, or ended its connection.
type NoAnswer struct {
	Why string // the reason, without details of the request
	Err error  // a [modproxy.ErrUnavailable]
}

func (n *NoAnswer) Error() string { return n.Err.Error() }

func (n *NoAnswer) Unwrap() error { return n.Err }

// MayPass reports whether an HTTP status may be temporary, so that a retry may succeed.
func MayPass(status int) bool {
	return status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented
}

// Refusal returns the error for an answer with an unexpected status. where names the server. advice follows the status
// and says how to get access. Only 404 and 410 mean that the module does not exist.
func Refusal(res *http.Response, where, advice string) error {
	switch res.StatusCode {
	case http.StatusNotFound, http.StatusGone:
		return fmt.Errorf("%w: %s answered %s", modproxy.ErrNotFound, where, res.Status)
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: %s answered %s%s", modproxy.ErrDenied, where, res.Status, advice)
	}
	err := &Answered{where, res.Status, res.StatusCode, res.Request.URL.Host}
	if MayPass(res.StatusCode) {
		return Later(err, res.Header.Get("Retry-After"))
	}
	return err
}

// maxLater bounds the pause that a server's Retry-After can impose.
const maxLater = time.Hour

// Later returns err as a [modproxy.RetryLater] if the value of a Retry-After header is in the future. Otherwise it
// returns err unchanged.
func Later(err error, retryAfter string) error {
	if wait, ok := egress.ParseRetryAfter(retryAfter); ok && wait > 0 {
		return &modproxy.RetryLater{After: time.Now().Add(min(wait, maxLater)), Err: err}
	}
	return err
}

const (
	// Tries is the number of attempts for a package, or a part of one, while failures may be temporary. The pauses between them are
	// a few seconds in total.
	Tries = 5

	firstPause = 500 * time.Millisecond // between two tries; it doubles
	// maxPause is the longest pause between tries that a server may ask for. After a longer one, the error has the time of
	// the next attempt.
	maxPause = 10 * time.Second
)

// Retry calls try until it returns no error, or again as false, at most [Tries] times. The pauses begin with half a second and double.
// A pause that an error demands ([modproxy.RetryLater]) is waited for up to ten seconds. Retry returns the last error. If again was
// true, this error is a [modproxy.Temporary] or a [modproxy.RetryLater].
func Retry(ctx context.Context, try func() (again bool, err error)) error {
	return retry.Budget{Tries: Tries, First: firstPause, MaxWait: maxPause}.Do(ctx, try)
}
