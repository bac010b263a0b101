package proxy

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/hostname"
)

// identify returns r with the principal that sent it, which has shown a credential, whatever may be read without one. It
// returns r unchanged where clients need none.
func (h *Handler) identify(r *http.Request, e *Event) (*http.Request, error) {
	return identifyBy(h.cfg.Auth, r, e)
}

// identifyOperator returns r with the operator that sent it. Other clients are told that the path does not exist.
func (h *Handler) identifyOperator(r *http.Request, e *Event) (*http.Request, error) {
	r, err := identifyBy(cmp.Or(h.cfg.Auth, h.cfg.Operators), r, e)
	if err == nil && !auth.PrincipalOf(r.Context()).Admin {
		err = notFound("there is nothing at this path")
	}
	return r, err
}

func identifyBy(a *auth.Authenticator, r *http.Request, e *Event) (_ *http.Request, err error) {
	p := auth.PrincipalOf(r.Context())
	if p.Kind != auth.ByOwner { // whom the connection identifies
		if a == nil {
			return r, nil
		}
		if p, err = a.Identify(r.Context(), r.Header, time.Now()); err != nil {
			return r, err
		}
	}
	return withPrincipal(r, e, p), nil
}

func withPrincipal(r *http.Request, e *Event, p auth.Principal) *http.Request {
	e.Principal, e.Groups = p.String(), p.Groups
	return r.WithContext(auth.WithPrincipal(r.Context(), p))
}

// identifyFor identifies the client that sent r, a request of the protocol. The path of a package may begin with a
// signed segment instead of a credential. malformed is wrong with a path; a client with a segment is not told.
func (h *Handler) identifyFor(r *http.Request, e *Event, segment string, q request, malformed error) (*http.Request, error) {
	isFile := malformed == nil && q.isFile()
	switch {
	case h.cfg.Auth == nil && segment != "" && malformed == nil && !isFile:
		return r, notFound(onlyFiles)
	case h.cfg.Auth == nil:
		return r, nil
	case segment != "" && !isFile:
		return r, &auth.Refused{Why: onlyFiles}
	case !isFile:
		if malformed != nil {
			q.Module = modproxy.Module{} // whose host may be no upstream, which is nothing for everybody
		}
		if p, ok := h.cfg.Auth.Anybody(r.Header, q.Module); ok {
			return withPrincipal(r, e, p), nil
		}
		return h.identify(r, e)
	case segment == "" && q.IsNestedAddress():
		return withPrincipal(r, e, auth.HasAddress(q.Module)), nil
	}
	p, err := h.cfg.Auth.Package(r.Context(), r.Header, segment, q.path(), q.Module, time.Now())
	if p.Kind != auth.Nobody { // also of a client that may not read the package
		r = withPrincipal(r, e, p)
	}
	return r, err
}

// identifyOf is identify for a request about the modules of a namespace of a registry, as [auth.Grant.MayReadOf] has it.
func (h *Handler) identifyOf(r *http.Request, e *Event, host, namespace string) (*http.Request, error) {
	if h.cfg.Auth != nil {
		if p, ok := h.cfg.Auth.Anybody(r.Header, modproxy.Module{Host: host, Namespace: namespace}); ok {
			return withPrincipal(r, e, p), nil
		}
	}
	return h.identify(r, e)
}

const onlyFiles = "only the path of a package is signed, or of what a provider is verified with"

// aboutModules reports whether a path is one of a protocol for modules, and what stands before that.
func aboutModules(path string) (named string, ok bool) {
	for _, protocol := range []string{modulesPath, historyPath} {
		if before, _, ok := strings.Cut(path+"/", "/"+protocol); ok {
			return strings.TrimPrefix(before, "/"), true
		}
	}
	return "", strings.HasPrefix(path, docsPath)
}

// explainToken adds to err where a person logs in or sets a token: for the upstream that the path has named or that the Host
// header names, or the site that describes one, or else for the proxy's own host.
func (h *Handler) explainToken(r *http.Request, named string, err error) error {
	named = strings.TrimSuffix(strings.Replace(named, "~", ":", 1), ":") // as the path of a package has it
	if named == "" {
		_, own, _ := strings.Cut(h.origin(r), "://")
		if h.cfg.Upstreams.docsAt(r.Host) != "" {
			own = r.Host
		}
		named = cmp.Or(h.cfg.Upstreams.byName(r.Host), own)
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
