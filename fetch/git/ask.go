package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
)

const (
	onlyRequest = "/git-upload-pack" // the path of all requests in protocol v2
	unheardFor  = 10 * time.Minute
)

// otherwise reports whether err is an otherwise. If that will not change soon, otherwise records it for the server or
// repository.
func (r *repository) otherwise(err error) bool {
	o, ok := errors.AsType[*otherwise](err)
	if ok && !o.passes {
		key := r.at.String()
		if o.origin {
			key = r.at.origin()
		}
		r.use.unheard.Add(key, struct{}{}, unheardFor, int64(len(key)))
	}
	return ok
}

// ask sends a question in protocol v2, and calls read with the answer. It sets r.mayPass.
func (r *repository) ask(ctx context.Context, question []byte, read func(answer io.ReadCloser) error) error {
	r.mayPass = false
	_, origin := r.use.unheard.Get(r.at.origin())
	_, repository := r.use.unheard.Get(r.at.String())
	if origin || repository || r.at.scheme == "ssh" {
		return &otherwise{says: "before", passes: true}
	}
	left := r.limit - r.came.Load()
	if left <= 0 {
		return r.tooLarge()
	}
	meter := modproxy.MeterOf(ctx)
	defer meter.Begin()()
	err := r.post(ctx, question, left, func(body io.ReadCloser) error {
		return read(&counted{body, func(n int) {
			r.came.Add(int64(n))
			meter.Add(int64(n))
		}})
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return r.outcome(err)
}

// counted calls add with the size of each read.
type counted struct {
	io.ReadCloser
	add func(n int)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.add(n)
	return n, err
}

// outcome converts err, the result of a question, for the caller of the Getter. It sets r.mayPass for errors of the
// network.
func (r *repository) outcome(err error) error {
	if broke, ok := errors.AsType[*said](err); ok {
		what := scrub("error: "+strings.ReplaceAll(strings.TrimSpace(broke.text), "\n", " "), false, r.secrets...)
		return fmt.Errorf("%w: %s broke off%s", modproxy.ErrUnavailable, r.at.origin(), what)
	}
	_, isOtherwise := errors.AsType[*otherwise](err)
	_, isRedirect := errors.AsType[*redirect](err)
	_, connecting := errors.AsType[*net.OpError](err)
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case isOtherwise, isRedirect, errors.Is(err, modproxy.ErrUnavailable), errors.Is(err, modproxy.ErrInvalid),
		errors.Is(err, modproxy.ErrDenied), errors.Is(err, modproxy.ErrNotFound), err == nil:
		return err
	case errors.Is(err, egress.ErrTooLarge):
		return r.tooLarge()
	case errors.Is(err, egress.ErrAnswer), errors.Is(err, egress.ErrTooSlow), ok && timeout.Timeout() && !connecting:
		return &otherwise{says: err.Error(), passes: true} // git waits longer
	}
	if err == io.ErrUnexpectedEOF {
		err = fmt.Errorf("%s ended its answer early: %w", r.at.origin(), err)
	}
	r.mayPass = egress.MayPass(err)
	return fetch.Outgoing(err)
}

// request returns a request in protocol v2 for a path below r.at.
func (r *repository) request(path string) egress.Request {
	request := egress.Request{
		URL: strings.TrimSuffix(r.at.String(), "/") + path,
		Header: http.Header{
			"Git-Protocol": {"version=2"},
			"User-Agent":   {"git/modproxy"}, // some servers recognize git by this name
		},
		// A large list takes a server long. A second request for it would delay the first.
		NoHedging: r.refs,
	}
	if !r.basic.IsZero() {
		request.Credentials = []egress.Credential{{Origin: r.at.origin(), Authorization: r.basic}}
	}
	return request
}

// refused returns the reason if the server refuses r.at to git, too: it has no such repository, or denies access. err is the
// outcome of an earlier request, and the result if the server does not refuse. So no client can start a git for every name that
// it tries.
func (r *repository) refused(ctx context.Context, err error) error {
	o, ok := errors.AsType[*otherwise](err)
	if !ok || !isRefusal(o.status) {
		return err
	}
	answer, errGet := r.use.Network.Get(ctx, r.request(firstRequest))
	if errGet != nil {
		return err
	}
	defer answer.Body.Close()
	if !isRefusal(answer.StatusCode) {
		return err
	}
	return r.answered(answer.StatusCode, "", "")
}

func isRefusal(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusNotFound || status == http.StatusGone
}

// post sends a question, and calls read with a valid answer.
func (r *repository) post(ctx context.Context, question []byte, limit int64, read func(io.ReadCloser) error) error {
	request := r.request(onlyRequest)
	request.MaxBytes = limit
	request.Header.Set("Content-Type", "application/x-git-upload-pack-request")
	request.Header.Set("Accept", "application/x-git-upload-pack-result")
	answer, err := r.use.Network.Post(ctx, request, question)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	location := answer.Header.Get("Location")
	switch status := answer.StatusCode; {
	case status == http.StatusOK && answer.Header.Get("Content-Type") == "application/x-git-upload-pack-result":
		if r.use.onAnswer != nil {
			r.use.onAnswer()
		}
		return read(answer.Body)
	case status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		return &otherwise{says: answer.Status, origin: true}
	case status/100 == 3 && strings.HasSuffix(strings.TrimSuffix(location, "?"), onlyRequest): // git handles other redirects
		return &redirect{onlyRequest, location}
	case status == http.StatusUnauthorized, fetch.MayPass(status) && status != http.StatusInternalServerError:
		return r.answered(status, answer.Header.Get("Retry-After"), "")
	default:
		return &otherwise{says: answer.Status, status: status, passes: status >= 500 || status == http.StatusOK}
	}
}
