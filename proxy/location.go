package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// serveLocation answers where the package of a version is: 204 and an absolute X-Terraform-Get, the one answer that
// every client understands.
func (h *Handler) serveLocation(w *response, r *http.Request, e *Event, q request) (err error) {
	if q.Version == "" {
		if q.Version, err = h.latest(r.Context(), q.Module); err != nil {
			return err
		}
		e.Version = q.Version
	}
	l, err := h.cfg.Registry.Location(r.Context(), q.ModuleVersion)
	if err != nil {
		return err
	}
	origin, path := h.origin(r), l.URL
	if l.URL, err = h.sign(r, path); err != nil {
		return err
	}
	l.URL = origin + l.URL
	w.Header()["X-Terraform-Get"] = []string{l.String()}
	if h.cfg.Auth != nil {
		// What is signed is one principal's, and OpenTofu is answered in two ways.
		w.Header()["Cache-Control"] = cachePrivate
		w.Header().Set("Vary", "Authorization, User-Agent")
		if l.Kept && l.Subdir == "" && takesCredentials(r) {
			// OpenTofu fetches this location with its token, so that no secret is in it. It gives up after ten seconds and
			// takes no subdirectory: this is for packages that are here, and whole.
			return writeJSON(w, map[string]any{"location": origin + path, "use_registry_credentials": true})
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handler) latest(ctx context.Context, m modproxy.Module) (string, error) {
	v, err := h.cfg.Registry.Versions(ctx, m)
	if err != nil {
		return "", err
	}
	latest, ok := v.Latest()
	if !ok {
		return "", fmt.Errorf("%w: %s has no versions", modproxy.ErrNotFound, m)
	}
	return latest.String(), nil
}

// sign returns the path of a package as one that its client can ask for without a credential: clients send none for
// packages.
func (h *Handler) sign(r *http.Request, path string) (string, error) {
	if h.cfg.Auth == nil || h.cfg.Auth.Signer == nil {
		return path, nil
	}
	return h.cfg.Auth.Signer.Path(auth.PrincipalOf(r.Context()), path, time.Now())
}

// sendsToken is the first version of OpenTofu that sends its token for a package (internal/registry/client.go).
var sendsToken, _ = modproxy.ParseVersion("1.12.0-0")

// takesCredentials reports whether the client that sent r sends its token for the package, too, if it is told to.
func takesCredentials(r *http.Request) bool {
	agent, ok := strings.CutPrefix(r.UserAgent(), "OpenTofu/")
	agent, _, _ = strings.Cut(agent, " ")
	version, err := modproxy.ParseVersion(agent)
	return ok && err == nil && version.Compare(sendsToken) >= 0
}
