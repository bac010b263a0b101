package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/rewrite"
)

// identify is r with the principal that sent it. Where nobody is asked it is r
// as it is.
func (h *Handler) identify(r *http.Request, e *Event) (*http.Request, error) {
	if h.cfg.Auth == nil {
		return r, nil
	}
	p, err := h.cfg.Auth.Identify(r.Context(), r.Header, time.Now())
	if err != nil {
		return r, err
	}
	return h.as(r, e, p), nil
}

// identifyFor is identify for a request of the protocol; bad is why it is none. A
// package's may have a signed segment before its path instead of a credential.
// Before anything else a segment is worth nothing, and whoever shows one is not told
// more than that: not which hosts are known here.
func (h *Handler) identifyFor(r *http.Request, e *Event, segment string, q request, bad error) (*http.Request, error) {
	isPackage := bad == nil && q.kind == kindPackage
	switch {
	case h.cfg.Auth == nil && segment != "" && bad == nil && !isPackage:
		return r, notFound("only the path of a package is signed")
	case h.cfg.Auth == nil:
		return r, nil
	case segment != "" && !isPackage:
		return r, &auth.Refused{Why: "only the path of a package is signed"}
	case !isPackage:
		return h.identify(r, e)
	}
	p, err := h.cfg.Auth.Package(r.Context(), r.Header, segment, rewrite.PackagePath(q.module, q.version), q.module, time.Now())
	if p.Kind != auth.Nobody { // who may not read it is known as well
		r = h.as(r, e, p)
	}
	return r, err
}

// showToken is err, of a client that is not known, and how a person makes the client
// show a token: by the host in the source address, which is the one that the path
// names, or else our own.
func (h *Handler) showToken(r *http.Request, err error) error {
	named, _, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"+protocolPath)
	if !ok {
		_, named, _ = strings.Cut(h.origin(r), "://")
	}
	host, errHost := hostname.Parse(named)
	if errHost != nil {
		return err
	}
	if variable := hostname.TokenVariable(host); variable != "" {
		return fmt.Errorf("%w: set %s", err, variable)
	}
	return fmt.Errorf("%w: set one in a credentials block for %s", err, host)
}

func (h *Handler) as(r *http.Request, e *Event, p auth.Principal) *http.Request {
	e.Principal, e.Groups = p.String(), p.Groups
	return r.WithContext(auth.WithPrincipal(r.Context(), p))
}

// operators lets those through who may operate the proxy.
func (h *Handler) operators(f handle) handle {
	return func(w http.ResponseWriter, r *http.Request, e *Event) error {
		r, err := h.identify(r, e)
		switch {
		case err != nil:
			return err
		case h.cfg.Auth != nil && !auth.PrincipalOf(r.Context()).Admin:
			return notFound("there is nothing at this path")
		}
		return f(w, r, e)
	}
}

// sign makes the path of a package one that its client can ask for without a
// credential: clients send none to where packages are.
func (h *Handler) sign(r *http.Request, path string) (string, error) {
	if h.cfg.Auth == nil || h.cfg.Auth.Signer == nil {
		return path, nil
	}
	return h.cfg.Auth.Signer.Path(auth.PrincipalOf(r.Context()), path, time.Now())
}

// takesCredentials reports whether the client that sent r shows its token to the
// package, too, if it is told to: OpenTofu since 1.12
// (internal/registry/client.go).
func takesCredentials(r *http.Request) bool {
	version, ok := strings.CutPrefix(r.UserAgent(), "OpenTofu/")
	if !ok {
		return false
	}
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, errX := strconv.Atoi(major)
	y, errY := strconv.Atoi(minor)
	return errX == nil && errY == nil && (x > 1 || x == 1 && y >= 12)
}
