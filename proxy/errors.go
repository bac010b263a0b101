package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/protocol"
)

// ErrShuttingDown is the cause of the context of a request that ends because the proxy does. Clients that wait are told.
var ErrShuttingDown = errors.New("modproxy is shutting down")

var (
	errMethod = protocol.WithStatus(http.StatusMethodNotAllowed, errors.New("only GET and HEAD are answered here"))
	// errAbsent is all that a client learns of what is absent at a private registry, or outside its scopes: the two look the same.
	errAbsent = fmt.Errorf("%w: no such module or version, or the token does not cover it", modproxy.ErrNotFound)
)

// statusClientGone is what nginx calls 499: the client went before the answer. It is logged and never sent.
const statusClientGone = 499

// maxRetryAfter is the longest that a client is told to wait: clients sleep as long as they are told, and show nothing.
const maxRetryAfter = 30 * time.Second

// statuses maps errors to HTTP; the first match counts. Of a 404, a 429 or a 5xx clients show a person the status only,
// so what a person should read has another 4xx.
var statuses = []struct {
	matches func(error) bool
	status  int
}{
	{is(ErrShuttingDown), http.StatusServiceUnavailable},
	{as[*modproxy.NoSpace], http.StatusInsufficientStorage},
	{fetchPassesSoon, http.StatusServiceUnavailable},
	{as[*modproxy.FetchFailed], http.StatusFailedDependency},
	{as[*modproxy.Lasting], http.StatusFailedDependency},
	{as[*modproxy.NotKept], http.StatusFailedDependency},
	{passesSoon, http.StatusServiceUnavailable},
	{as[*modproxy.RetryLater], http.StatusFailedDependency},
	{is(modproxy.ErrChanged), http.StatusConflict},
	{is(modproxy.ErrUnavailable), http.StatusBadGateway},
	{is(modproxy.ErrUnauthorized), http.StatusUnauthorized},
	{is(modproxy.ErrDenied), http.StatusForbidden},
	{is(modproxy.ErrNotFound), http.StatusNotFound},
	{is(auth.ErrOffset), http.StatusBadRequest},
	{is(modproxy.ErrInvalid), http.StatusFailedDependency}, // of upstream; of the request it is a requestError
	{is(context.DeadlineExceeded), http.StatusGatewayTimeout},
	{is(context.Canceled), http.StatusServiceUnavailable},
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

func as[T error](err error) bool { return errors.As(err, new(T)) }

func passesSoon(err error) bool {
	return as[*modproxy.RetryLater](err) && retryAfter(err) <= maxRetryAfter
}

// fetchPassesSoon reports whether err is a fetch that failed because of trouble that may end soon.
func fetchPassesSoon(err error) bool {
	return as[*modproxy.FetchFailed](err) && (as[*modproxy.Temporary](err) || as[*modproxy.RetryLater](err)) &&
		retryAfter(err) <= maxRetryAfter
}

// retryAfter returns how long a client should wait before it asks again.
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

// writeError answers r with err, as one line of JSON.
func (h *Handler) writeError(w *response, r *http.Request, e *Event, err error) {
	if r.Context().Err() != nil && endOf(r.Context()) == nil {
		w.status = statusClientGone
		return
	}
	err = h.explain(r, err)
	status, header := statusOf(err), w.Header()
	text := h.tell(r, err, status)
	if last := h.statusOfRetry(r, e, status, retryAfter(err)); last != status {
		if status == http.StatusServiceUnavailable {
			text.next += ", and if that fails, ask " + h.contact()
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
	header["Content-Type"] = jsonType
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

// explain returns what the client that sent r is told of err.
func (h *Handler) explain(r *http.Request, err error) error {
	if h.cfg.Auth != nil && errors.Is(err, modproxy.ErrNotFound) && !as[*modproxy.FetchFailed](err) {
		if named, ok := errors.AsType[*modproxy.Error](err); !ok || h.cfg.Auth.Open == nil || !h.cfg.Auth.Open(named.Ref.Host) {
			return errAbsent
		}
	}
	if named, ok := protocol.NamedHost(r.URL.Path); ok && errors.Is(err, modproxy.ErrUnauthorized) {
		return h.explainToken(r, named, err)
	}
	return err
}

// oneLine returns s without secrets, with blanks in the place of line breaks and other control characters, and with escapes in the place
// of others that a terminal would obey or not show. Of a text in which a token is hidden it repeats nothing.
func oneLine(s string) string {
	if hidesToken(s) {
		return "there is a token in the request, whose text is not repeated"
	}
	return clean.Text(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, auth.Redact(s)))
}

const (
	// maxReason is the longest text in a reason phrase, in bytes. Proxies on the way hold all headers of an answer in a few KiB.
	maxReason = 600
	// reasonTime is how long a client may take to read an answer with a reason phrase of its own.
	reasonTime = 10 * time.Second
)

// showsReason reports whether the client that sent r prints the reason phrase of an answer with that status, and nothing
// of its body: docs/reference/errors.md has what clients print. Only HTTP/1 has reason phrases.
func showsReason(r *http.Request, status int) bool {
	if r.ProtoMajor != 1 || r.ContentLength != 0 || status == http.StatusNotFound {
		return false
	}
	path := r.URL.Path
	if protocol.IsAboutProviders(path) {
		return status != http.StatusUnauthorized // for which clients have words of their own
	}
	return strings.HasSuffix(path, "/versions") || strings.HasSuffix(path, "/terraform.json") ||
		strings.HasSuffix(path, "/download") && (status == http.StatusTooManyRequests || status >= 500)
}

// reason returns the phrase that stands behind a status: the usual words, then text in printable ASCII (RFC 9112, 4).
func reason(status int, text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, strings.ReplaceAll(text, "…", "..."))
	return http.StatusText(status) + " (" + text + ")"
}

// writeReason answers r with status and body, and with text in the reason phrase, and reports whether it could. net/http
// writes no phrase but the usual one, so the connection is taken from it, and closed afterwards.
func (w *response) writeReason(r *http.Request, status int, text string, body []byte) bool {
	conn, _, err := w.control.Hijack()
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(reasonTime))
	header := w.Header()
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	header.Set("Connection", "close")
	header.Set("Content-Length", fmt.Sprint(len(body)))
	out := bufio.NewWriter(conn)
	fmt.Fprintf(out, "HTTP/1.%d %d %s\r\n", min(r.ProtoMinor, 1), status, reason(status, text))
	header.Write(out)
	out.WriteString("\r\n")
	w.status = status
	if r.Method != http.MethodHead {
		out.Write(body)
		w.bytes += int64(len(body))
	}
	out.Flush() // a client that is gone does not matter
	return true
}
