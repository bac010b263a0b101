package proxy

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/protocol"
)

const (
	// clientWait is how long a request waits for its turn: clients wait ten seconds or less for versions and download, and try twice.
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
	if q.IsDescription() {
		return h.serveCatalog(w, r, e, q)
	}
	switch q.Address.Kind() {
	case modproxy.Provider:
		return h.serveProvider(w, r, e, q, segment)
	case modproxy.Module:
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

// ownPaths are the endpoints of modproxy itself.
var ownPaths = []struct {
	protocol.Endpoint
	serve func(h *Handler, w *httpx.Response, r *http.Request, e *httpx.Event) error
}{
	{own("home", "/", "says how to configure clients", protocol.AccessClient), (*Handler).serveHome},
	{own("health", "/-/healthz", "answers while the process runs", protocol.AccessNone), (*Handler).serveAlive},
	{own("health", "/-/readyz", "answers whether modproxy can do its work, with details for operators", protocol.AccessNone), (*Handler).serveReady},
	{own("metrics", "/-/metrics", "returns [metrics](metrics.md) for Prometheus", protocol.AccessOperator), (*Handler).serveMetrics},
}

func own(kind protocol.Kind, path, about string, access protocol.Access) protocol.Endpoint {
	return protocol.Endpoint{Kind: kind, Method: http.MethodGet, Path: path, About: about, Access: access}
}

// Endpoints returns the endpoints of modproxy itself, without mounts.
func Endpoints() (all []protocol.Endpoint) {
	for _, own := range ownPaths {
		all = append(all, own.Endpoint)
	}
	return all
}

// serveMetrics serves the metrics. Where clients are identified, only operators may read them.
func (h *Handler) serveMetrics(w *httpx.Response, r *http.Request, e *httpx.Event) error {
	if h.cfg.Auth != nil {
		if _, err := h.identifyOperator(r, e, false); err != nil {
			return err
		}
	}
	h.cfg.Metrics.ServeHTTP(w, r)
	return nil
}

// serveHome serves a text for a person on how to configure a client. The text names every upstream.
func (h *Handler) serveHome(w *httpx.Response, r *http.Request, e *httpx.Event) error {
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
	return protocol.NotFound("this path does not exist: paths of the module registry protocol contain /v1/modules/")
}

// A Problem keeps the proxy from some or all of its work.
type Problem struct {
	// State is the part that every client may read: it has no paths and no names.
	State string
	// Err is the part that only operators may read; it may be nil.
	Err error
	// Minor problems leave the proxy ready.
	Minor bool
}

// serveAlive answers while the process runs.
func (h *Handler) serveAlive(w *httpx.Response, r *http.Request, e *httpx.Event) error {
	_, err := w.Write([]byte("ok\n"))
	return err
}

// serveReady answers whether the proxy can do its work. Only operators and the log get the errors of problems.
func (h *Handler) serveReady(w *httpx.Response, r *http.Request, e *httpx.Event) error {
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

// isOperator reports whether r is from an operator, or from this machine if clients never need a credential.
func (h *Handler) isOperator(r *http.Request, e *httpx.Event) bool {
	if h.cfg.Local && h.cfg.Auth == nil {
		return true
	}
	_, err := h.identifyOperator(r, e, false)
	return err == nil
}
