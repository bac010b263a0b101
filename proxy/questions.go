package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/protocol"
)

// Values of headers of many answers. They are not changed.
var (
	varyClient            = []string{"Authorization, User-Agent"}
	acceptRanges          = []string{"bytes"}
	gzipType              = []string{"application/gzip"}
	cacheForEver          = []string{"public, max-age=31536000, immutable"}
	cacheForEverPrivately = []string{"private, max-age=31536000, immutable"}
	cachePrivate          = []string{"private, no-cache"}
	cacheStale            = []string{"modproxy; hit; detail=stale"} // of Cache-Status (RFC 9211)
	cacheHit              = []string{"modproxy; hit"}
	cacheMiss             = []string{"modproxy; fwd=miss; stored"}
)

// serveVersions serves a versions document.
func (h *Handler) serveVersions(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request) error {
	v, err := h.cfg.Registry.Versions(r.Context(), q.Address)
	if err != nil {
		return err
	}
	release, err := h.documents.Hold(v.Document, len(v.Compressed))
	if err != nil {
		return err
	}
	defer release()
	setListingStatus(w, e, v)
	w.WriteDocument(r, httpx.Document{Plain: v.Document, Compressed: v.Compressed, ETag: v.ETag}, h.private(cachePrivate))
	return nil
}

// private returns the value of Cache-Control where clients show tokens, and nil elsewhere.
func (h *Handler) private(value []string) []string {
	if h.cfg.Auth == nil {
		return nil
	}
	return value
}

// setListingStatus sets the headers for whether v was cached, and its age.
func setListingStatus(w *httpx.Response, e *httpx.Event, v *modproxy.Versions) {
	setCacheStatus(w, e, v.Hit)
	header := w.Header()
	if v.Stale {
		e.Cache, header["Cache-Status"] = cacheStale[0], cacheStale
	}
	if v.Hit {
		header["Age"] = w.Value(strconv.FormatInt(max(0, int64(time.Since(v.Time)/time.Second)), 10))
	}
}

// serveLocation answers with the location of a package: 204 and an absolute X-Terraform-Get, which every client understands.
func (h *Handler) serveLocation(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request) error {
	l, err := h.locate(r.Context(), &q.Ref)
	e.Version = q.FullVersion()
	if err != nil {
		return err
	}
	origin, path := h.origin(r), l.URL
	if h.cfg.Auth != nil {
		if l.URL, err = h.cfg.Auth.Path(auth.PrincipalOf(r.Context()), path, q.Address, time.Now()); err != nil {
			return err
		}
	}
	signed := l.URL != path
	l.URL = origin + l.URL
	header := w.Header()
	header["X-Terraform-Get"] = w.Value(l.String())
	if h.cfg.Auth != nil {
		// A signed path is for one principal, and OpenTofu is answered in two ways.
		header["Cache-Control"], header["Vary"] = cachePrivate, varyClient
		if signed && l.Kept && l.Subdir == "" && takesCredentials(r) {
			// OpenTofu downloads this location with its token, but gives up after ten seconds and accepts no subdirectory.
			return w.WriteJSON(map[string]any{"location": h.packageOrigin(r, origin) + path, "use_registry_credentials": true})
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// packageOrigin returns the URL before the path of a package that a client downloads with its token. A client that knows the proxy by
// the name of an upstream has a token for that name: for it the path alone leads to the same origin.
func (h *Handler) packageOrigin(r *http.Request, origin string) string {
	if h.cfg.Upstreams.ByHost(r.Host) != "" {
		return ""
	}
	return origin
}

// locate returns the location of the package of v. It sets an empty version to the latest one.
func (h *Handler) locate(ctx context.Context, v *modproxy.Ref) (modproxy.Location, error) {
	if v.Version == "" {
		list, err := h.cfg.Registry.Versions(ctx, v.Address)
		if err != nil {
			return modproxy.Location{}, err
		}
		latest, ok := list.Latest()
		if !ok {
			return modproxy.Location{}, fmt.Errorf("%w: %s has no versions", modproxy.ErrNotFound, v.Address)
		}
		v.Version = latest.String()
	}
	return h.cfg.Registry.Location(ctx, *v)
}

// firstWithToken is the first version of OpenTofu that sends its token for a package (internal/registry/client.go).
var firstWithToken, _ = modproxy.ParseVersion("1.12.0-0")

// takesCredentials reports whether the client that sent r can send its token with the request for the package.
func takesCredentials(r *http.Request) bool {
	agent, ok := strings.CutPrefix(r.UserAgent(), "OpenTofu/")
	agent, _, _ = strings.Cut(agent, " ")
	version, err := modproxy.ParseVersion(agent)
	return ok && err == nil && version.Compare(firstWithToken) >= 0
}
