package proxy

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/protocol"
)

// serveDiscovery serves the service discovery document of the name that r was sent to: the proxy's own, or the name of an upstream.
// The document of an upstream also has the upstream's other services. All documents have the same login: clients store a token for
// each name.
func (h *Handler) serveDiscovery(w *httpx.Response, r *http.Request, e *httpx.Event) error {
	e.Kind = "discovery"
	base, services := "/", map[string]any{}
	host := h.cfg.Upstreams.ByHost(r.Host)
	if host != "" && h.cfg.Auth != nil {
		ctx, err := h.identifyOf(r, e, host, "")
		if err != nil || !auth.PrincipalOf(ctx).MayReadOf(host, "") {
			host = "" // as if the upstream did not exist
		}
	}
	// Services are paths, as in public registries: clients resolve them against the URL of their request, and some tools append
	// them to the hostname. Under a public URL with a path, paths from the root would not work.
	if _, at, _ := strings.Cut(h.cfg.PublicURL, "://"); strings.Contains(at, "/") {
		base = h.cfg.PublicURL + "/"
		if host != "" {
			base += host + "/"
		}
	}
	_, others := h.otherServices(r, e, host)
	for name, at := range others {
		if base == "/" || strings.HasPrefix(at, "https://") {
			services[name] = at
		}
	}
	services["modules.v1"] = base + protocol.ModulesPath
	// No provider has the proxy's own hostname. Where clients are identified, the document of every other name has providers, so that
	// it does not reveal whether the name is an upstream's. A request for a provider then returns the error about the token.
	isNamed := h.cfg.Upstreams.ByHost(r.Host) != "" || h.cfg.Auth != nil && !h.isOwnName(r.Host)
	if isNamed && h.hasProviders(host) {
		services["providers.v1"] = base + protocol.ProvidersPath
	}
	if login := h.cfg.Auth.Login(time.Now()); login != nil {
		services["login.v1"] = login
	}
	return w.WriteJSON(services)
}

// serveDiscoveryBelow serves the service discovery document of the registry in the path, for tools that take a URL instead of a
// hostname. They append paths to the URL, so services are absolute URLs. Without a credential, clients learn nothing about which
// registries exist.
func (h *Handler) serveDiscoveryBelow(w *httpx.Response, r *http.Request, e *httpx.Event) error {
	e.Kind = "discovery"
	host, unknown := h.cfg.Upstreams.InPath(mux.Vars(r)["registry"])
	if unknown != nil {
		host = "" // no client may read of an unknown registry
	}
	_, err := h.identifyOf(r, e, host, "")
	if err := cmp.Or(err, unknown); err != nil {
		return err
	}
	base := h.origin(r) + "/" + host + "/"
	services := map[string]string{"modules.v1": base + protocol.ModulesPath}
	if h.hasProviders(host) {
		services["providers.v1"] = base + protocol.ProvidersPath
	}
	return w.WriteJSON(services)
}

// hasProviders reports whether a registry can have providers: all but that of own modules.
func (h *Handler) hasProviders(host string) bool {
	return host == "" || host != h.cfg.Upstreams.Modules
}
