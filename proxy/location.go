package proxy

import (
	"fmt"
	"net/http"
	"strings"

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
	l, err := h.cfg.Registry.Location(r.Context(), q.module, q.version)
	if err != nil {
		return err
	}
	if strings.HasPrefix(l.URL, "/") {
		l.URL = h.origin(r) + l.URL
	}
	w.Header()["X-Terraform-Get"] = []string{l.String()}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
