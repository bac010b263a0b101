package proxy

import (
	"encoding/json"
	"net/http"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// protocol answers the modules.v1 protocol.
func (h *Handler) protocol(w http.ResponseWriter, r *http.Request, e *Event) error {
	segment, path := auth.CutSegment(r.URL.EscapedPath())
	q, bad := h.cfg.Upstreams.parse(r.Host, path)
	if bad == nil {
		e.Kind, e.Module, e.Version = q.kind.String(), q.module, q.version
	}
	r, unknown := h.identifyFor(r, e, segment, q, bad)
	client := clientOf(r.Context(), e.Client)
	if err := h.bounds.enter(r.Context(), client, patienceFor(q.kind)); err != nil {
		return err
	}
	defer h.bounds.leave(client)
	r = r.WithContext(modproxy.WithAsker(r.Context(), client))
	switch {
	case unknown != nil:
		return unknown
	case bad != nil:
		return bad
	}
	switch q.kind {
	case kindVersions:
		return h.versions(w, r, e, q)
	case kindDownload:
		return h.download(w, r, e, q)
	default:
		r, stop := h.whileKnown(r, segment)
		defer stop()
		err := h.archive(w, r, e, q)
		if why := ended(r.Context()); err != nil && why != nil {
			return why
		}
		return err
	}
}

// metrics serves what was measured.
func (h *Handler) metrics(w http.ResponseWriter, r *http.Request, e *Event) error {
	e.Kind = "metrics"
	h.cfg.Metrics.ServeHTTP(w, r)
	return nil
}

// discovery serves the service discovery document. It asks no upstream. Under the name of an upstream it names the
// URLs of that upstream, which requests to another name of the proxy reach, too.
func (h *Handler) discovery(w http.ResponseWriter, r *http.Request, e *Event) error {
	e.Kind = "discovery"
	origin, services := h.origin(r), map[string]string{}
	if host, ok := h.cfg.Upstreams.byName(r.Host); ok {
		origin += "/" + host
		services["providers.v1"] = origin + "/" + providersPath
	}
	services["modules.v1"] = origin + "/" + protocolPath
	body, err := json.Marshal(services)
	if err != nil {
		return err
	}
	w.Header()["Content-Type"] = jsonType
	_, err = w.Write(append(body, '\n'))
	return err
}

// home tells a person what this is and what to put into the client's configuration,
// which names every upstream.
func (h *Handler) home(w http.ResponseWriter, r *http.Request, e *Event) error {
	e.Kind = "home"
	if h.cfg.Home == nil {
		return h.nowhere(w, r, e)
	}
	if _, err := h.identify(r, e); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, err := w.Write([]byte(h.cfg.Home(h.origin(r))))
	return err
}
