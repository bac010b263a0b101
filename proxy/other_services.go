package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/protocol"
)

// OtherServices has the services of the hosts of upstreams beside modules and providers, for clients whose DNS leads an upstream's
// name here.
type OtherServices interface {
	// OtherServices returns the services of a host by name: a URL for a service on another host, and a path for a service on the
	// host itself. It omits services whose path belongs to a registry protocol. It waits a second at most.
	OtherServices(ctx context.Context, host string) map[string]string
	// Document returns the document at a path of a host, which may have a query, and its media type. The request has no
	// credential.
	Document(ctx context.Context, host, path string) (mediaType string, content []byte, err error)
}

// plainPath matches paths that every program reads alike: without escapes, dots at the beginning of a segment, empty segments, and
// parameters.
var plainPath = regexp.MustCompile(`^(/[A-Za-z0-9_~@+,=-][A-Za-z0-9._~@+,=-]*)+/?$`)

// otherServices returns the services of host that the client that sent r may know, and r with its principal. Where clients show
// tokens, the tokens are of this proxy, and no other host may receive them. The other services of a host may reveal any of its
// modules, so they are for clients that may read all modules of the host.
func (h *Handler) otherServices(r *http.Request, e *httpx.Event, host string) (*http.Request, map[string]string) {
	if h.cfg.OtherServices == nil || host == "" {
		return r, nil
	}
	if h.cfg.Auth != nil {
		ctx, err := h.identifyOf(r, e, host, auth.AnySegment)
		if err != nil || !auth.PrincipalOf(ctx).MayReadOf(host, auth.AnySegment) {
			return r, nil
		}
		r = r.WithContext(ctx)
	}
	all := map[string]string{}
	for name, at := range h.cfg.OtherServices.OtherServices(r.Context(), host) {
		if plainPath.MatchString(at) && !h.isOwn(at) || h.cfg.Auth == nil && strings.HasPrefix(at, "https://") {
			all[name] = at
		}
	}
	return r, all
}

// isOwn reports whether paths below path are answered here, and so never passed on.
func (h *Handler) isOwn(path string) bool {
	path = strings.TrimSuffix(path, "/") + "/"
	return strings.HasPrefix(path, "/-/") || protocol.Covers(path)
}

// policiesPath is the path of the public registry's libraries of policies, which are neither modules nor providers. The registry's
// discovery document does not name it.
const policiesPath = "/v2/policies"

// serveOther serves a document of a service of the upstream whose name r was sent to. It passes on the path and the query of r, and
// nothing else.
func (h *Handler) serveOther(w *httpx.Response, r *http.Request, e *httpx.Event) error {
	host, path := h.cfg.Upstreams.ByHost(r.Host), r.URL.EscapedPath()
	r, all := h.otherServices(r, e, host)
	below := all != nil && (path == policiesPath || strings.HasPrefix(path, policiesPath+"/"))
	for _, at := range all {
		below = below || path == at || strings.HasPrefix(path, strings.TrimSuffix(at, "/")+"/")
	}
	if !below || !plainPath.MatchString(path) {
		return h.serveNothing(w, r, e)
	}
	e.Kind = "relayed"
	ctx, client, err := h.admission.Admit(r.Context(), e, r.UserAgent(), clientWait)
	if err != nil {
		return err
	}
	defer h.admission.Leave(client)
	if _, err := url.QueryUnescape(r.URL.RawQuery); err != nil {
		return protocol.Invalid(errors.New("bad percent-encoding in the query"))
	}
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	if httpx.HasToken(path) {
		return protocol.Invalid(errors.New("there is a token in the URL, which is not passed on"))
	}
	mediaType, content, err := h.cfg.OtherServices.Document(ctx, host, path)
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", mediaType)
	header["Cache-Control"] = cachePrivate
	w.Write(content)
	return nil
}
