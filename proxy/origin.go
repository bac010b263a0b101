package proxy

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/protocol"
)

// origin returns the URL of the proxy for the client that sent r, without a trailing slash, or an empty one if it is not known. It
// does not trust the client's headers, because the URL stands in answers.
func (h *Handler) origin(r *http.Request) string {
	if h.cfg.PublicURL != "" {
		return h.cfg.PublicURL
	}
	scheme, host, known := "http", r.Host, h.hasName(r.Host)
	if r.TLS != nil {
		scheme = "https"
	}
	if remote, ok := parseAddress(r.RemoteAddr); ok && h.trusts(remote) {
		if forwardedScheme, forwardedHost := forwarded(r.Header); forwardedHost != "" {
			if forwardedScheme == "http" || forwardedScheme == "https" {
				scheme = forwardedScheme
			}
			_, err := hostname.Parse(forwardedHost)
			host, known = forwardedHost, err == nil
		}
	}
	if !known {
		return ""
	}
	return scheme + "://" + host
}

func (h *Handler) trusts(ip netip.Addr) bool {
	return slices.ContainsFunc(h.cfg.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// clientAddress returns the address that r came from: the nearest one that is not a trusted proxy.
func (h *Handler) clientAddress(r *http.Request) string {
	remote, ok := netip.Addr{}, false
	if len(h.cfg.TrustedProxies) > 0 {
		remote, ok = parseAddress(r.RemoteAddr)
	}
	if !ok || !h.trusts(remote) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		return host
	}
	for _, before := range forwardedFor(r.Header) {
		ip, ok := parseAddress(before)
		if !ok {
			break
		}
		if remote = ip; !h.trusts(ip) {
			break
		}
	}
	return remote.String()
}

// parseAddress reads an address of a connection or of a forwarding header, with or without a port.
func parseAddress(s string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap(), true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		s = strings.TrimSuffix(inner, "]")
	}
	ip, err := netip.ParseAddr(s)
	return ip.Unmap(), err == nil
}

// forwardedFor returns the addresses that the proxies on the way received the request from, beginning with the nearest proxy.
func forwardedFor(header http.Header) []string {
	if lines := header["X-Forwarded-For"]; len(lines) > 0 {
		return backward(lines)
	}
	elements := backward(standard(header))
	for i, element := range elements {
		elements[i] = forwardedPairs(element)["for"]
	}
	return elements
}

// standard returns the lines of Forwarded (RFC 7239), unless there are X-Forwarded headers: the client may have written Forwarded
// then.
func standard(header http.Header) []string {
	for name := range header {
		if strings.HasPrefix(name, "X-Forwarded-") {
			return nil
		}
	}
	return header["Forwarded"]
}

// forwarded returns the scheme and the host of the request that the nearest proxy received, from X-Forwarded headers or Forwarded.
func forwarded(header http.Header) (scheme, host string) {
	if lines := header["X-Forwarded-Host"]; len(lines) > 0 {
		return strings.ToLower(backward(header["X-Forwarded-Proto"])[0]), backward(lines)[0]
	}
	pairs := forwardedPairs(backward(standard(header))[0])
	return strings.ToLower(pairs["proto"]), pairs["host"]
}

// forwardedPairs returns the pairs of an element of Forwarded, with names in lower case.
func forwardedPairs(element string) map[string]string {
	pairs := map[string]string{}
	for pair := range strings.SplitSeq(element, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		pairs[strings.ToLower(name)] = strings.Trim(value, `"`)
	}
	return pairs
}

// backward returns the elements of a list of one or more lines, the last first. It returns at least one element.
func backward(lines []string) []string {
	list := strings.Split(strings.Join(lines, ","), ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	slices.Reverse(list)
	return list
}

// errForeignName does not repeat the name, which another party chose.
var errForeignName = protocol.WithStatus(http.StatusMisdirectedRequest, errors.New(
	"without a credential this proxy answers only requests to its own names and addresses; "+
		"operator: set public_url to the URL that clients use"))

// checkName returns an error for a request to a foreign name, if [Config.Local] is set. The owner of such a name may let it lead here,
// so that a page of theirs, in a browser on this machine, has the same origin as the proxy (DNS rebinding). Addresses have no owner.
// Where clients are identified, requests with a valid token or a signed path pass: a page can send any header, but has neither of
// them.
func (h *Handler) checkName(r *http.Request, now time.Time) error {
	if !h.cfg.Local || h.hasName(r.Host) && h.mayKnow(r) || h.isOwnName(r.Host) {
		return nil
	}
	if signed, _ := auth.CutSegment(r.URL.EscapedPath()); h.cfg.Auth != nil && signed != "" {
		return nil // serve refuses the request unless the segment is valid
	}
	if h.cfg.Auth != nil && len(r.Header["Authorization"]) > 0 {
		if _, err := h.cfg.Auth.Identify(r.Context(), r.Header, now); err == nil {
			return nil
		}
	}
	return errForeignName
}

// isOwnName reports whether a Host header names this proxy itself: a name of the process or of PublicURL, localhost, or an address.
func (h *Handler) isOwnName(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	if _, isAddress := parseAddress(host); isAddress || hostname.IsLocal(name) || h.cfg.Process != nil && h.cfg.Process.HasName(host) {
		return true
	}
	u, err := url.Parse(h.cfg.PublicURL)
	return err == nil && u.Host != "" && strings.EqualFold(u.Hostname(), name)
}

// mayKnow reports whether a client without a credential may read the discovery document of the upstream whose name r was sent to. It
// returns true for every other name, and for other paths, where the answer asks for a credential.
func (h *Handler) mayKnow(r *http.Request) bool {
	host := h.cfg.Upstreams.ByHost(r.Host)
	if host == "" || h.cfg.Auth == nil || r.URL.Path != protocol.DiscoveryPath {
		return true
	}
	_, ok := h.cfg.Auth.Anybody(r.Header, modproxy.Address{Host: host})
	return ok
}

// hasName reports whether a Host header has a name of the process or of an upstream.
func (h *Handler) hasName(host string) bool {
	if h.cfg.Upstreams.ByHost(host) != "" || h.cfg.Process != nil && h.cfg.Process.HasName(host) {
		return true
	}
	return h.cfg.Upstreams.ByDocs(host) != ""
}
