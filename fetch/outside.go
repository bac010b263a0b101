package fetch

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
)

// Outgoing returns what err, an error of package egress, is to a registry's user. An error that is one of package
// modproxy's already stays as it is, and so does nil.
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

// Authority says what an operator does about a certificate of an unknown authority.
const Authority = " (operator: egress.ca_file can name the certificate authority)"

// Untrusted adds [Authority] to an error about such a certificate.
func Untrusted(err error) error {
	if !errors.As(err, new(x509.UnknownAuthorityError)) {
		return err
	}
	return fmt.Errorf("%w%s", err, Authority)
}

// Answered is [modproxy.ErrUnavailable]: an answer with an unexpected status.
type Answered struct {
	Where, Status string
	Code          int
	Host          string // that answered, with a port as in a URL
}

func (a *Answered) Error() string {
	return fmt.Sprintf("%v: %s answered %s", modproxy.ErrUnavailable, a.Where, a.Status)
}

func (a *Answered) Unwrap() error { return modproxy.ErrUnavailable }

// MayPass reports whether an answer with that status may be another one soon.
func MayPass(status int) bool {
	return status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented
}

// Refusal returns what an answer with an unexpected status means. Where names the server, and advice, which follows the
// status, says how to be let in. Only 404 and 410 say that there is no such thing.
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

// maxLater is the longest that a server is left alone because it says so.
const maxLater = time.Hour

// Later returns err as a [modproxy.RetryLater] if the value of a Retry-After header names a time to come, else as it is.
func Later(err error, retryAfter string) error {
	if wait, ok := egress.ParseRetryAfter(retryAfter); ok && wait > 0 {
		return &modproxy.RetryLater{After: time.Now().Add(min(wait, maxLater)), Err: err}
	}
	return err
}

const (
	// Tries is how often a server is asked for a package, or a part of one, while the trouble that it meets may pass: for
	// some seconds.
	Tries = 5

	firstPause = 500 * time.Millisecond // between two tries; it doubles
	// maxPause is the longest that a server may ask for. After a longer one the error tells when to come back.
	maxPause = 10 * time.Second
)

// Retry calls try up to [Tries] times, as long as it says that the next one may do better. It pauses between tries,
// for as long as the server asks for, and returns the last error when there is no time for that. If that error may pass,
// it is a [modproxy.Temporary], or a [modproxy.RetryLater].
func Retry(ctx context.Context, try func() (again bool, err error)) error {
	for n := 1; ; n++ {
		again, err := try()
		if err == nil || !again {
			return err
		}
		pause := firstPause << (n - 1)
		pause = pause/2 + rand.N(pause/2+1)
		later, isLater := errors.AsType[*modproxy.RetryLater](err)
		if isLater {
			pause = max(pause, time.Until(later.After))
		} else {
			err = &modproxy.Temporary{Err: err}
		}
		deadline, ends := ctx.Deadline()
		if n == Tries || pause > maxPause || ends && time.Until(deadline) <= pause {
			return err
		}
		modproxy.Troubled(ctx, err)
		if !sleep(ctx, pause) {
			return err
		}
	}
}

// sleep waits for d, and returns false if ctx ends before. A fetch lends its turn to others meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	defer modproxy.MeterOf(ctx).Begin()()
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
