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

// errMisdirected says what to do about it, and not which name it was.
var errMisdirected = &badRequest{http.StatusMisdirectedRequest, errors.New(
	"this proxy asks nobody who they are, and so answers only under a name that is known to be its own: set public_url to the URL that clients use, or ask for its address")}

// misdirected refuses, where [Config.Local] is set, what was not sent to a name of
// ours. Whoever owns another can have it lead here, and then a page of theirs, in a
// browser on this machine, is of the same origin as we are (DNS rebinding). With an
// address, or a name that they do not own, they cannot.
func (h *Handler) misdirected(r *http.Request) error {
	if !h.cfg.Local || isLocal(r.Host) || h.cfg.Known != nil && h.cfg.Known(r.Host) {
		return nil
	}
	if _, ok := h.cfg.Upstreams.byName(r.Host); ok {
		return nil
	}
	if u, err := url.Parse(h.cfg.PublicURL); err == nil && u.Host != "" && strings.EqualFold(nameOf(u.Host), nameOf(r.Host)) {
		return nil
	}
	return errMisdirected
}

// isLocal reports whether a Host header has an address, or a name that nobody owns.
func isLocal(host string) bool {
	name := nameOf(host)
	_, err := netip.ParseAddr(name)
	return err == nil || hostname.IsLocalhost(name)
}

// nameOf is a host without its port and brackets.
func nameOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}
