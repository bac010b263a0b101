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

// serveDiscovery serves the service discovery document of the name that r was sent to: the proxy's own, or that of an
// upstream, whose services it then has, also others than those of a registry. Where people log in is the same for all: clients
// keep a token for each name.
func (h *Handler) serveDiscovery(w *httpx.Response, r *http.Request, e *httpx.Event) error {
	e.Kind = "discovery"
	base, services := "/", map[string]any{}
	host := h.cfg.Upstreams.ByHost(r.Host)
	if host != "" && h.cfg.Auth != nil {
		ctx, err := h.identifyOf(r, e, host, "")
		if err != nil || !auth.PrincipalOf(ctx).MayReadOf(host, "") {
			host = "" // as if there were no such upstream
		}
	}
	// Paths, as public registries have them: clients are where they have asked, and some tools put what stands here behind
	// the hostname. But a public URL with a path is in the way of paths from the root.
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
	// No provider has the proxy's own hostname. Where clients are identified, every other name has providers for a client that may
	// not know whether it is an upstream's: it is told of the token that it needs when it asks for one.
	if h.cfg.Upstreams.ByHost(r.Host) != "" || h.cfg.Auth != nil && !h.isOwnName(r.Host) {
		services["providers.v1"] = base + protocol.ProvidersPath
	}
	if login := h.cfg.Auth.Login(time.Now()); login != nil {
		services["login.v1"] = login
	}
	return w.WriteJSON(services)
}

// serveDiscoveryBelow serves the service discovery document of the registry in the path, for tools that are given a URL
// instead of a hostname. They put paths behind that, so URLs are whole. Which registries there are is not for everybody.
func (h *Handler) serveDiscoveryBelow(w *httpx.Response, r *http.Request, e *httpx.Event) error {
	e.Kind = "discovery"
	host, unknown := h.cfg.Upstreams.InPath(mux.Vars(r)["registry"])
	if unknown != nil {
		host = "" // which is nothing for everybody
	}
	_, err := h.identifyOf(r, e, host, "")
	if err := cmp.Or(err, unknown); err != nil {
		return err
	}
	base := h.origin(r) + "/" + host + "/"
	return w.WriteJSON(map[string]string{"modules.v1": base + protocol.ModulesPath, "providers.v1": base + protocol.ProvidersPath})
}
