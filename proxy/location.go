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
func (h *Handler) serveLocation(w *response, r *http.Request, e *Event, q request) error {
	l, err := h.locate(r.Context(), &q.ModuleVersion)
	e.Version = q.Version
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

// locate returns where the package of v is. It sets the version to the latest if that is empty.
func (h *Handler) locate(ctx context.Context, v *modproxy.ModuleVersion) (modproxy.Location, error) {
	if v.Version == "" {
		list, err := h.cfg.Registry.Versions(ctx, v.Module)
		if err != nil {
			return modproxy.Location{}, err
		}
		latest, ok := list.Latest()
		if !ok {
			return modproxy.Location{}, fmt.Errorf("%w: %s has no versions", modproxy.ErrNotFound, v.Module)
		}
		v.Version = latest.String()
	}
	return h.cfg.Registry.Location(ctx, *v)
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
