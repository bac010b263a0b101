package proxy

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/protocol"
)

const (
	// clientWait is how long a request waits for its turn: for versions and download, clients wait ten seconds or less, and try twice.
	clientWait = 3 * time.Second
	// packageWait is the same for packages, which clients wait for without a timeout and request once.
	packageWait = 30 * time.Second
)

// serve answers a request of a protocol.
func (h *Handler) serve(w *httpx.Response, r *http.Request, e *httpx.Event) error {
	segment, path := auth.CutSegment(r.URL.EscapedPath())
	q, malformed := h.cfg.Upstreams.Parse(r.Host, path)
	if malformed == nil && (q.IsList() || q.IsOfDocuments()) {
		e.Kind = string(q.Kind)
	} else if malformed == nil {
		e.Kind, e.Module = string(q.Kind), q.Address
		e.Version, e.Platform = q.VersionPlatform()
	}
	ctx, refused := h.identifyFor(r, e, segment, q, malformed)
	wait := clientWait
	if q.IsPackage() {
		wait = packageWait
	}
	ctx, client, err := h.admission.Admit(ctx, e, r.UserAgent(), wait)
	if err != nil {
		return err
	}
	defer h.admission.Leave(client)
	if refused != nil && malformed == nil && q.IsProvider() {
		refused = providerError(refused)
	}
	if err := cmp.Or(refused, malformed); err != nil {
		return err
	}
	return h.dispatch(w, r.WithContext(ctx), e, q, segment)
}

// dispatch answers q.
func (h *Handler) dispatch(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request, segment string) error {
	switch {
	case q.IsDescription():
		return h.serveCatalog(w, r, e, q)
	case q.IsProvider():
		return h.serveProvider(w, r, e, q, segment)
	}
	switch q.Kind {
	case protocol.KindVersions:
		return h.serveVersions(w, r, e, q)
	case protocol.KindDownload:
		return h.serveLocation(w, r, e, q)
	default:
		return h.servePackage(w, r, e, q, segment)
	}
}

// serveMetrics serves what was measured. Where clients are identified it is for operators.
func (h *Handler) serveMetrics(w *httpx.Response, r *http.Request, e *httpx.Event) error {
	e.Kind = "metrics"
	if h.cfg.Auth != nil {
		if _, err := h.identifyOperator(r, e, false); err != nil {
			return err
		}
	}
	h.cfg.Metrics.ServeHTTP(w, r)
	return nil
}

// serveHome tells a person what this is and how to configure a client. The text names every upstream.
func (h *Handler) serveHome(w *httpx.Response, r *http.Request, e *httpx.Event) error {
	e.Kind = "home"
	if h.cfg.Process == nil {
		return h.serveNothing(w, r, e)
	}
	if _, err := h.identify(r, e); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err := io.WriteString(w, h.cfg.Process.Home(h.origin(r)))
	return err
}

func (h *Handler) serveNothing(*httpx.Response, *http.Request, *httpx.Event) error {
	return protocol.NotFound("there is nothing at this path: module registry requests have /v1/modules/ in theirs")
}

// Problem is something that keeps the proxy from its work.
type Problem struct {
	// State is what everybody may know: no paths, no names.
	State string
	// Err is what operators are told, too; it may be nil.
	Err error
	// Minor problems leave the proxy ready.
	Minor bool
}

// serveAlive answers that the process runs.
func (h *Handler) serveAlive(w *httpx.Response, r *http.Request, e *httpx.Event) error {
	e.Kind = "health"
	_, err := w.Write([]byte("ok\n"))
	return err
}

// serveReady answers whether the proxy can do its work. All of a problem but its state is for operators and the log.
func (h *Handler) serveReady(w *httpx.Response, r *http.Request, e *httpx.Event) error {
	e.Kind = "health"
	answer, ready := "ready", true
	if h.cfg.Process != nil {
		var states, details []string
		for _, p := range h.cfg.Process.Problems() {
			states = append(states, p.State)
			if p.Err != nil {
				p.State += ": " + p.Err.Error()
			}
			details = append(details, p.State)
			ready = ready && p.Minor
		}
		shown := strings.Join(states, "; ")
		if len(states) > 0 && h.isOperator(r, e) {
			shown = strings.Join(details, "; ")
		}
		if !ready {
			e.Err = errors.New(strings.Join(details, "; "))
			return protocol.WithStatus(http.StatusServiceUnavailable, errors.New(shown))
		}
		if shown != "" {
			answer += ", but " + shown
		}
	}
	_, err := io.WriteString(w, answer+"\n")
	return err
}

// isOperator reports whether r is from an operator, or from this machine if clients need no credential for anything.
func (h *Handler) isOperator(r *http.Request, e *httpx.Event) bool {
	if h.cfg.Local && h.cfg.Auth == nil {
		return true
	}
	_, err := h.identifyOperator(r, e, false)
	return err == nil
}
