package proxy

import (
	"errors"
	"net/http"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/protocol"
)

var errMethod = protocol.WithStatus(http.StatusMethodNotAllowed, errors.New("only GET and HEAD are answered here"))

// explain returns the error that the client that sent r receives instead of err.
func (h *Handler) explain(r *http.Request, err error) error {
	if h.cfg.Auth != nil && errors.Is(err, modproxy.ErrNotFound) && !errors.As(err, new(*modproxy.FetchFailed)) {
		if named, ok := errors.AsType[*modproxy.Error](err); !ok || h.cfg.Auth.Open == nil || !h.cfg.Auth.Open(named.Ref.Host) {
			return httpx.ErrAbsent
		}
	}
	if named, ok := protocol.NamedHost(r.URL.Path); ok && errors.Is(err, modproxy.ErrUnauthorized) {
		return h.explainToken(r, named, err)
	}
	return err
}
