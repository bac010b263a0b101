package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/modproxy/modproxy"
)

// download answers where the package of a version is: 204 and an absolute
// X-Terraform-Get, the one answer that every client understands.
func (h *Handler) download(w http.ResponseWriter, r *http.Request, e *Event, q request) error {
	if q.version == "" {
		v, err := h.cfg.Registry.Versions(r.Context(), q.module)
		if err != nil {
			return err
		}
		latest, ok := v.Latest()
		if !ok {
			return fmt.Errorf("%w: %s has no versions", modproxy.ErrNotFound, q.module)
		}
		q.version = latest.String()
		e.Version = q.version
	}
	l, err := h.cfg.Registry.Location(r.Context(), q.module.At(q.version))
	if err != nil {
		return err
	}
	path, origin := l.URL, h.origin(r)
	if l.URL, err = h.sign(r, path); err != nil {
		return err
	}
	l.URL = origin + l.URL
	header := w.Header()
	header["X-Terraform-Get"] = []string{l.String()}
	if h.cfg.Auth == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	// What is signed is one principal's, and OpenTofu is answered in two ways.
	header["Cache-Control"] = cachePrivate
	header.Set("Vary", "Authorization, User-Agent")
	if !l.Kept || l.Subdir != "" || !takesCredentials(r) {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return h.direct(w, origin+path)
}

// direct answers OpenTofu with a location that it fetches with its token, so that
// no secret is in it. It has ten seconds for that and takes no subdirectory: it is
// for packages that are here, and whole. Other clients read the header.
func (h *Handler) direct(w http.ResponseWriter, location string) error {
	body, err := json.Marshal(map[string]any{"location": location, "use_registry_credentials": true})
	if err != nil {
		return err
	}
	w.Header()["Content-Type"] = jsonType
	_, err = w.Write(append(body, '\n'))
	return err
}
