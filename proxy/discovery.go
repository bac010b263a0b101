package proxy

import "net/http"

// serveDiscovery serves the service discovery document. It asks no upstream. Under the name of an upstream it names the
// URLs of that upstream, which requests to another name of the proxy reach, too.
func (h *Handler) serveDiscovery(w *response, r *http.Request, e *Event) error {
	e.Kind = "discovery"
	origin, services := h.origin(r), map[string]string{}
	if host := h.cfg.Upstreams.byName(r.Host); host != "" {
		origin += "/" + host
		services["providers.v1"] = origin + "/" + providersPath
	}
	services["modules.v1"] = origin + "/" + modulesPath
	return writeJSON(w, services)
}
