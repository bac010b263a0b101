package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// badRequest is a fault of the request itself.
type badRequest struct {
	status int
	err    error
}

func (e *badRequest) Error() string { return e.err.Error() }
func (e *badRequest) Unwrap() error { return e.err }

// ErrEnding is the cause of a request's context that is ended because the proxy is: who
// waits is told so.
var ErrEnding = errors.New("modproxy is shutting down")

var errMethod = &badRequest{http.StatusMethodNotAllowed, errors.New("only GET and HEAD are answered here")}

// statusClientGone is what nginx calls 499: the client went before the answer.
// It is logged and never sent.
const statusClientGone = 499

// maxRetryAfter is the longest that a client is told to wait: clients sleep as
// long as they are told, with nothing on the screen.
const maxRetryAfter = 30 * time.Second

// statuses says what each error is over HTTP; the first that fits counts. A
// client shows a person nothing of a 404, a 429 or a 5xx but the status, so what
// a person should read is answered with another 4xx.
var statuses = []struct {
	err    error
	status int
}{
	{modproxy.ErrChanged, http.StatusConflict},
	{modproxy.ErrUnavailable, http.StatusBadGateway},
	{modproxy.ErrUnauthorized, http.StatusUnauthorized},
	{modproxy.ErrDenied, http.StatusForbidden},
	{modproxy.ErrNotFound, http.StatusNotFound},
	{modproxy.ErrInvalid, http.StatusFailedDependency}, // upstream's fault: the request's own is a badRequest
	{context.DeadlineExceeded, http.StatusGatewayTimeout},
	{context.Canceled, http.StatusServiceUnavailable},
}

// statusOf is the status that err is answered with and, for 503, for how long the
// client should wait.
func statusOf(err error, now time.Time) (status int, wait time.Duration) {
	var bad *badRequest
	var failed *modproxy.FetchFailed
	var later *modproxy.RetryLater
	var full *modproxy.NoSpace
	var lasting *modproxy.Lasting
	switch {
	case errors.As(err, &bad):
		return bad.status, 0
	case errors.Is(err, ErrEnding):
		return http.StatusServiceUnavailable, time.Second
	case errors.As(err, &full):
		return http.StatusInsufficientStorage, 0
	case errors.As(err, &failed), errors.As(err, &lasting):
		return http.StatusFailedDependency, 0
	case errors.As(err, &later):
		if wait := later.After.Sub(now); wait <= maxRetryAfter {
			return http.StatusServiceUnavailable, max(wait, time.Second)
		}
		return http.StatusFailedDependency, 0
	}
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.status, 0
		}
	}
	return http.StatusInternalServerError, 0
}

// writeError answers with err, as one line of JSON.
func writeError(w *recorder, r *http.Request, err error) {
	if r.Context().Err() != nil && ended(r.Context()) == nil {
		w.status = statusClientGone
		return
	}
	status, wait := statusOf(err, time.Now())
	header := w.Header()
	for _, name := range []string{"Etag", "Cache-Control", "Content-Encoding", "Content-Length"} {
		header.Del(name)
	}
	if wait > 0 {
		header.Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	}
	if status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", auth.Challenge)
	}
	if status == http.StatusMethodNotAllowed {
		header.Set("Allow", "GET, HEAD")
	}
	header["Content-Type"] = jsonType
	header.Set("X-Content-Type-Options", "nosniff")
	text := oneLine(err.Error())
	body, _ := json.Marshal(map[string][]string{"errors": {text}}) // strings always marshal
	body = append(body, '\n')
	if wantsPhrase(r, status) && w.writePhrase(r, status, text, body) {
		return
	}
	w.WriteHeader(status)
	w.Write(body) // a client that is gone is no concern
}

// oneLine is s without secrets, line breaks and other control characters, cut at a
// length that a person still reads.
func oneLine(s string) string {
	const most = 1000
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, auth.Redact(s))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
