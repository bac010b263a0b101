package httpx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/protocol"
)

// ErrAbsent is all that a client learns of an address that does not exist at a private registry, or is outside its scopes: the two
// look the same.
var ErrAbsent = fmt.Errorf("%w: no such module or version, or the token does not cover it", modproxy.ErrNotFound)

// statusClientGone is the status that nginx calls 499: the client went before the answer. It is logged and never sent.
const statusClientGone = 499

// maxRetryAfter is the longest Retry-After of an answer: clients sleep as long as it says, and print nothing.
const maxRetryAfter = 30 * time.Second

// statuses maps errors to HTTP; the first match counts. Clients print only the status of a 404, a 429 or a 5xx, so errors that a
// person should read have another 4xx. An error without a match is a 500.
//
// The table does not decide alone:
//
//   - Responder.Explain replaces an error before it is looked up here; in package proxy, an error about a private registry
//     becomes [ErrAbsent].
//   - A [protocol.Error], also one that another error wraps, has its own status.
//   - If the client repeats a request for a location after a 5xx, statusOfRetry answers 424.
//   - If the client is gone, nothing is sent, and the log has 499.
//
// The text of an answer is made in message.go, the reason phrase in reason.go.
var statuses = []struct {
	matches func(error) bool
	status  int
}{
	{is(ErrShuttingDown), http.StatusServiceUnavailable},
	{as[*modproxy.NoSpace], http.StatusInsufficientStorage},
	{fetchPassesSoon, http.StatusServiceUnavailable},
	{as[*modproxy.FetchFailed], http.StatusFailedDependency},
	{as[*modproxy.Permanent], http.StatusFailedDependency},
	{as[*modproxy.NotCached], http.StatusFailedDependency},
	{passesSoon, http.StatusServiceUnavailable},
	{as[*modproxy.RetryLater], http.StatusFailedDependency},
	{is(modproxy.ErrChanged), http.StatusConflict},
	{is(modproxy.ErrUnavailable), http.StatusBadGateway},
	{is(modproxy.ErrUnauthorized), http.StatusUnauthorized},
	{is(modproxy.ErrDenied), http.StatusForbidden},
	{is(modproxy.ErrNotFound), http.StatusNotFound},
	{is(auth.ErrOffset), http.StatusBadRequest},
	{is(modproxy.ErrInvalid), http.StatusFailedDependency}, // of upstream; a fault of the request is a protocol.Error
	{is(context.DeadlineExceeded), http.StatusGatewayTimeout},
	{is(context.Canceled), http.StatusServiceUnavailable},
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

func as[T error](err error) bool { return errors.As(err, new(T)) }

func passesSoon(err error) bool {
	return as[*modproxy.RetryLater](err) && retryAfter(err) <= maxRetryAfter
}

// fetchPassesSoon reports whether err is a download that failed by a temporary error that may end soon.
func fetchPassesSoon(err error) bool {
	return as[*modproxy.FetchFailed](err) && (as[*modproxy.Temporary](err) || as[*modproxy.RetryLater](err)) &&
		retryAfter(err) <= maxRetryAfter
}

// retryAfter returns how long a client should wait before it sends its request again.
func retryAfter(err error) time.Duration {
	wait := time.Second
	if failed, ok := errors.AsType[*modproxy.FetchFailed](err); ok {
		wait = max(wait, time.Until(failed.Again))
	}
	if later, ok := errors.AsType[*modproxy.RetryLater](err); ok {
		wait = max(wait, time.Until(later.After))
	}
	return wait
}

// statusOf returns the status of an answer with err.
func statusOf(err error) int {
	var own *protocol.Error
	if errors.As(err, &own) {
		return own.Status
	}
	for _, s := range statuses {
		if s.matches(err) {
			return s.status
		}
	}
	return http.StatusInternalServerError
}

// Later returns err as a [modproxy.RetryLater]: clients may retry after wait, or after a second if wait is shorter.
func Later(wait time.Duration, err error) error {
	return &modproxy.RetryLater{After: time.Now().Add(max(wait, time.Second)), Err: err}
}

// writeError answers r with err, as one line of JSON.
func (p *Responder) writeError(w *Response, r *http.Request, e *Event, err error) {
	if r.Context().Err() != nil && EndOf(r.Context()) == nil {
		w.status = statusClientGone
		return
	}
	if p.Explain != nil {
		err = p.Explain(r, err)
	}
	status, header := statusOf(err), w.Header()
	text := p.message(r, err, status)
	if last := p.statusOfRetry(r, e, status, retryAfter(err)); last != status {
		if status == http.StatusServiceUnavailable {
			text.next += ", and if that fails, ask " + p.contact()
		}
		status = last
	}
	for _, name := range []string{"Etag", "Cache-Control", "Content-Encoding", "Content-Length"} {
		header.Del(name)
	}
	switch status {
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", strconv.Itoa(int(inSeconds(retryAfter(err)).Seconds())))
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", auth.Challenge)
	case http.StatusMethodNotAllowed:
		header.Set("Allow", "GET, HEAD")
	}
	header["Content-Type"] = JSONType
	var body bytes.Buffer
	to := json.NewEncoder(&body)
	to.SetEscapeHTML(false)                                              // clients print it as it is
	_ = to.Encode(map[string][]string{"errors": {text.within(maxText)}}) // strings always do
	if showsReason(r, status) && w.writeReason(r, status, text.within(maxReason), body.Bytes()) {
		return
	}
	w.WriteHeader(status)
	w.Write(body.Bytes()) // a client that is gone does not matter
}
