package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/modproxy/modproxy/auth"
)

// Hindrance is something that hinders the proxy from doing its work.
type Hindrance struct {
	// State is what anybody may know of it: no paths, no names.
	State string
	// Err is what the operator is told besides; it may be nil.
	Err error
	// Mild is that the proxy is ready all the same.
	Mild bool
}

// healthz says that the process is alive.
func (h *Handler) healthz(w http.ResponseWriter, r *http.Request, e *Event) error {
	e.Kind = "health"
	_, err := w.Write([]byte("ok\n"))
	return err
}

// readyz says whether the proxy can do its work: anybody that, and what it cannot do,
// and the operator why.
func (h *Handler) readyz(w http.ResponseWriter, r *http.Request, e *Event) error {
	e.Kind = "health"
	if h.cfg.Ready != nil {
		n := &notReady{list: h.cfg.Ready()}
		for _, hindrance := range n.list {
			if !hindrance.Mild {
				n.whole = h.operates(r, e)
				return n
			}
		}
		if len(n.list) > 0 {
			_, err := fmt.Fprintf(w, "ready, but %s\n", n.text(h.operates(r, e)))
			return err
		}
	}
	_, err := w.Write([]byte("ready\n"))
	return err
}

// operates reports whether r is from who operates the proxy, or where nobody else is
// thought of, from this machine. A credential that is not good is as none.
func (h *Handler) operates(r *http.Request, e *Event) bool {
	if h.cfg.Local || auth.PrincipalOf(r.Context()).Kind == auth.ByOwner {
		return true
	}
	if h.cfg.Auth == nil {
		_, err := h.operator(r, e)
		return err == nil
	}
	r, err := h.identify(r, e)
	return err == nil && auth.PrincipalOf(r.Context()).Admin
}

// notReady is why the proxy is not ready; whole tells who asked all of it. The log has
// it all.
type notReady struct {
	list  []Hindrance
	whole bool
}

func (n *notReady) Error() string { return n.text(true) }

// said is what who asked is told.
func (n *notReady) said() error {
	return &badRequest{http.StatusServiceUnavailable, errors.New(n.text(n.whole))}
}

func (n *notReady) text(whole bool) string {
	var all []string
	for _, hindrance := range n.list {
		s := hindrance.State
		if whole && hindrance.Err != nil {
			s += ": " + hindrance.Err.Error()
		}
		all = append(all, s)
	}
	return strings.Join(all, "; ")
}
