package proxy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/protocol"
)

// identify returns the context of r with the principal that sent it. The client must show a credential, also where some addresses
// need none. Without Config.Auth, identify returns the context of r unchanged.
func (h *Handler) identify(r *http.Request, e *httpx.Event) (context.Context, error) {
	return identifyBy(h.cfg.Auth, r, e)
}

// identifyOperator returns the context of r with the operator that sent it, or with refresh, with a client that may refresh modules.
// For other clients the path does not exist.
func (h *Handler) identifyOperator(r *http.Request, e *httpx.Event, refresh bool) (context.Context, error) {
	ctx, err := identifyBy(cmp.Or(h.cfg.Auth, h.cfg.Operators), r, e)
	if p := auth.PrincipalOf(ctx); err == nil && !p.Admin && !(refresh && p.Refresh) {
		err = errNoPath
	}
	return ctx, err
}

var errNoPath = protocol.NotFound("this path does not exist")

func identifyBy(a *auth.Authenticator, r *http.Request, e *httpx.Event) (context.Context, error) {
	ctx := r.Context()
	p := auth.PrincipalOf(ctx)
	if p.Kind != auth.ByOwner { // the connection identifies the owner
		if a == nil {
			return ctx, nil
		}
		var err error
		if p, err = a.Identify(ctx, r.Header, e.Time); err != nil {
			return ctx, err
		}
	}
	return withPrincipal(ctx, e, p), nil
}

func withPrincipal(ctx context.Context, e *httpx.Event, p auth.Principal) context.Context {
	e.Principal, e.Groups = p.String(), p.Groups
	return auth.WithPrincipal(ctx, p)
}

// identifyFor returns the context of r, a request of a protocol, with the client that sent it. The path of a file may begin with a
// signed segment instead of a credential. malformed is the error of the path; clients with a segment do not receive it.
func (h *Handler) identifyFor(
	r *http.Request, e *httpx.Event, segment string, q protocol.Request, malformed error,
) (context.Context, error) {
	ctx := r.Context()
	isFile := malformed == nil && q.IsFile()
	switch {
	case h.cfg.Auth == nil && segment != "" && malformed == nil && !isFile:
		return ctx, protocol.NotFound(onlyFiles)
	case h.cfg.Auth == nil:
		return ctx, nil
	case segment != "" && !isFile:
		return ctx, &auth.Refused{Why: onlyFiles}
	case !isFile:
		if malformed != nil {
			q.Address = modproxy.Address{} // its host may be unknown, and no client may read of an unknown registry
			if p, ok := h.anybodyOfAll(r); ok {
				return withPrincipal(ctx, e, p), nil
			}
		}
		if p, ok := h.cfg.Auth.Anybody(r.Header, q.Address); ok {
			return withPrincipal(ctx, e, p), nil
		}
		return h.identify(r, e)
	case segment == "" && q.Variant.Kind == modproxy.NestedVariant:
		return withPrincipal(ctx, e, auth.HasAddress(q.Address)), nil
	}
	p, err := h.cfg.Auth.Package(ctx, r.Header, segment, q.Path(), q.Address, e.Time)
	if p.Kind != auth.Nobody { // also if the client may not read the package
		ctx = withPrincipal(ctx, e, p)
	}
	return ctx, err
}

// anybodyOfAll returns the principal that sent r, and whether it needs no credential because every address of every upstream may be
// read without one.
func (h *Handler) anybodyOfAll(r *http.Request) (auth.Principal, bool) {
	hosts := maps.Keys(h.cfg.Upstreams.Hosts)
	if h.cfg.Upstreams.Any {
		hosts = slices.Values([]string{auth.AnySegment})
	}
	return h.cfg.Auth.AnybodyOfAll(r.Header, hosts)
}

// identifyOf is identify for a request about the modules of a namespace of a registry, see [auth.Grant.MayReadOf]. An empty host is
// an unknown registry.
func (h *Handler) identifyOf(r *http.Request, e *httpx.Event, host, namespace string) (context.Context, error) {
	if h.cfg.Auth != nil {
		p, ok := h.cfg.Auth.Anybody(r.Header, modproxy.Address{Host: host, Namespace: namespace})
		if !ok && host == "" {
			p, ok = h.anybodyOfAll(r)
		}
		if ok {
			return withPrincipal(r.Context(), e, p), nil
		}
	}
	return h.identify(r, e)
}

const onlyFiles = "only the paths of packages, checksums and signatures can be signed"

// explainToken adds to err how a person logs in or sets a token: for the upstream that the path or the Host header names, for the
// site that describes an upstream, or else for the proxy's own host.
func (h *Handler) explainToken(r *http.Request, named string, err error) error {
	named = strings.TrimSuffix(strings.Replace(named, "~", ":", 1), ":") // the path of a package has ~ instead of the colon
	if named == "" {
		_, own, _ := strings.Cut(h.origin(r), "://")
		if h.cfg.Upstreams.ByDocs(r.Host) != "" {
			own = r.Host
		}
		named = cmp.Or(h.cfg.Upstreams.ByHost(r.Host), own)
	}
	host, errHost := hostname.Parse(hostname.Display(named))
	if errHost != nil {
		return err
	}
	how := "set one in a credentials block for " + host
	if variable := hostname.TokenVariable(host); variable != "" {
		how = "set " + variable
	}
	if h.cfg.Auth.Login(time.Now()) != nil {
		how = fmt.Sprintf(`run "terraform login %[1]s" or "tofu login %[1]s", or %[2]s`, host, how)
	}
	return fmt.Errorf("%w: %s", err, how)
}
