package proxy

import (
	"errors"
	"io/fs"
	"net/http"
	"strings"

	"github.com/gorilla/mux"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/protocol"
)

// A Mount is a path that is answered beside the protocols.
type Mount struct {
	// Method is the HTTP method. GET includes HEAD.
	Method string
	// Path is the whole path of a request. A path with a slash at its end is the beginning of one.
	Path string
	// Kind is the name in the log and the metrics.
	Kind string
	// Open admits all clients, without a credential. Handle must authenticate them itself. Then Public, Refresh and Owner have no effect.
	Open bool
	// Public admits all clients. If Config.Auth is set, it admits only clients with a valid credential. Handle must check what they
	// may read. If Public and Refresh are not set, only operators are admitted; for other clients the path does not exist.
	Public bool
	// Refresh admits operators and clients that may refresh modules. Handle must limit the latter to their scopes. It has no effect
	// if Public is set.
	Refresh bool
	// Owner admits only [auth.Owner]; for other clients the path does not exist. It has no effect if Public is set.
	Owner bool
	// Handle answers, or writes nothing and returns an error. Its answer is 400 for [modproxy.ErrInvalid], 404 for [fs.ErrNotExist],
	// and otherwise that of package httpx. The context of r has the principal. [Config.Limits] apply to clients that are not
	// operators, and to all clients if Public or Open is set.
	Handle func(w http.ResponseWriter, r *http.Request) error
}

var crossOrigin = http.NewCrossOriginProtection()

// mount adds the route of m.
func (h *Handler) mount(m Mount) {
	route := h.router.NewRoute()
	if strings.HasSuffix(m.Path, "/") {
		route.PathPrefix(m.Path)
	} else {
		route.Path(m.Path)
	}
	route.MatcherFunc(func(r *http.Request, _ *mux.RouteMatch) bool {
		return r.Method == m.Method || r.Method == http.MethodHead && m.Method == http.MethodGet
	})
	limit := httpx.PieceTime
	if !m.Public && !m.Open {
		limit = 0 // a person may read the answer in a pager
	}
	route.HandlerFunc(h.responder.Handle(limit, func(w *httpx.Response, r *http.Request, e *httpx.Event) error {
		e.Kind = m.Kind
		err := h.serveMount(m, w, r, e)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return protocol.WithStatus(http.StatusNotFound, err)
		case errors.Is(err, modproxy.ErrInvalid):
			return protocol.Invalid(err)
		}
		return err
	}))
}

func (h *Handler) serveMount(m Mount, w *httpx.Response, r *http.Request, e *httpx.Event) error {
	if err := crossOrigin.Check(r); err != nil {
		return protocol.WithStatus(http.StatusForbidden, errors.New("a web page of another site has sent this request"))
	}
	ctx, err := r.Context(), error(nil)
	switch {
	case m.Open:
	case m.Public:
		ctx, err = h.identify(r, e)
	default:
		ctx, err = h.identifyOperator(r, e, m.Refresh)
		if err == nil && m.Owner && auth.PrincipalOf(ctx).Kind != auth.ByOwner {
			err = errNoPath
		}
	}
	if err == nil && (m.Open || m.Public || !auth.PrincipalOf(ctx).Admin) {
		var client string
		if ctx, client, err = h.admission.Admit(ctx, e, r.UserAgent(), clientWait); err == nil {
			defer h.admission.Leave(client)
		}
	}
	if err != nil {
		return err
	}
	return m.Handle(w, r.WithContext(ctx))
}
