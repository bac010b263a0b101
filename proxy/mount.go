package proxy

import (
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// Mount is something that is answered beside the protocol.
type Mount struct {
	// Method is the one that is answered; GET is HEAD as well.
	Method string
	// Path is all of a request's path, or with a slash at its end the beginning.
	Path string
	// Kind is what the log and the metrics call it.
	Kind string
	// Known lets in whoever may read every module, and everybody where nobody is
	// asked; [Config.Limits] are for them, too. Without it only those are let in
	// who may operate the proxy, by [Config.Auth] or because the context of the
	// connection has [auth.Owner].
	Known bool
	// Sparing makes Known let in whoever the proxy knows, because Handle itself
	// tells each of them no more than they may read.
	Sparing bool
	// Handle answers, or says with an error why it does not; it has then written
	// nothing. The error is answered by its kind, [modproxy.ErrInvalid] and
	// [fs.ErrNotExist] as faults of the request.
	Handle func(w http.ResponseWriter, r *http.Request) error
}

var crossOrigin = http.NewCrossOriginProtection()

// mount adds m's route.
func (h *Handler) mount(m Mount) {
	f := func(w http.ResponseWriter, r *http.Request, e *Event) error {
		e.Kind = m.Kind
		r, err := h.enter(r, e, m)
		if err == nil && m.Known {
			client := clientOf(r.Context(), e.Client)
			if err = h.bounds.enter(r.Context(), client, patience); err == nil {
				defer h.bounds.leave(client)
			}
		}
		if err == nil {
			err = m.Handle(w, r)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &badRequest{http.StatusNotFound, err}
		case errors.Is(err, modproxy.ErrInvalid):
			return invalid(err)
		}
		return err
	}
	route := h.router.NewRoute()
	if strings.HasSuffix(m.Path, "/") {
		route.PathPrefix(m.Path)
	} else {
		route.Path(m.Path)
	}
	route.MatcherFunc(func(r *http.Request, _ *mux.RouteMatch) bool {
		return r.Method == m.Method || r.Method == http.MethodHead && m.Method == http.MethodGet
	})
	slow := slowTime
	if !m.Known {
		slow = 0 // a person may look at a page of it, at the end of a pipe
	}
	route.HandlerFunc(h.answer(slow, f))
}

// enter lets in whom m is for. A browser that another site has sent is none of
// them, whatever it shows.
func (h *Handler) enter(r *http.Request, e *Event, m Mount) (*http.Request, error) {
	if err := crossOrigin.Check(r); err != nil {
		return r, &badRequest{http.StatusForbidden, errors.New("a page of another site asked for this")}
	}
	if p := auth.PrincipalOf(r.Context()); p.Kind == auth.ByOwner {
		return h.as(r, e, p), nil
	}
	r, err := h.identify(r, e)
	if err != nil {
		return r, err
	}
	p := auth.PrincipalOf(r.Context())
	switch {
	case h.cfg.Auth == nil && !m.Known:
		return h.operator(r, e)
	case h.cfg.Auth == nil, p.Admin, m.Known && (m.Sparing || p.MayReadAll()):
		return r, nil
	}
	return r, notFound("there is nothing at this path")
}

// operator is r of who may operate the proxy, where nobody else is asked.
func (h *Handler) operator(r *http.Request, e *Event) (*http.Request, error) {
	who := h.cfg.Operators
	if who == nil {
		who = &auth.Authenticator{}
	}
	p, err := who.Identify(r.Context(), r.Header, time.Now())
	switch {
	case err != nil:
		return r, err
	case !p.Admin:
		return r, notFound("there is nothing at this path")
	}
	return h.as(r, e, p), nil
}
