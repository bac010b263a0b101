package proxy

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy/hostname"
)

// errForeignName does not repeat the name.
var errForeignName = &requestError{http.StatusMisdirectedRequest, errors.New(
	"this proxy needs no credential, and so answers only under a name that is known to be its own: " +
		"set public_url to the URL that clients use, or ask for its address")}

// checkName refuses r, where [Config.Local] is set, if it was sent to a foreign name. The owner of such a name can have
// it lead here. A page of theirs, in a browser on this machine, is then of the same origin as the proxy (DNS rebinding).
// An address, or a name that nobody owns, cannot be used for that.
func (h *Handler) checkName(r *http.Request) error {
	if !h.cfg.Local || h.hasName(r.Host) {
		return nil
	}
	name := withoutPort(r.Host)
	if _, err := netip.ParseAddr(name); err == nil || hostname.IsLocalhost(name) {
		return nil
	}
	if u, err := url.Parse(h.cfg.PublicURL); err == nil && u.Host != "" && strings.EqualFold(withoutPort(u.Host), name) {
		return nil
	}
	return errForeignName
}

// hasName reports whether a Host header has a name of the process or of an upstream.
func (h *Handler) hasName(host string) bool {
	_, ok := h.cfg.Upstreams.byName(host)
	return ok || h.cfg.Process.HasName(host)
}

// withoutPort returns host without its port and brackets.
func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}
