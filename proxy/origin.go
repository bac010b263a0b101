package proxy

import (
	"iter"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/hostname"
)

// origin returns the URL, without a trailing slash, under which the client that sent r sees the proxy, or an empty one if
// that is not known. What a client says of it is not believed: it would end up in answers.
func (h *Handler) origin(r *http.Request) string {
	if h.cfg.PublicURL != "" {
		return h.cfg.PublicURL
	}
	scheme, host := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	known := h.hasName
	if remote, ok := parseAddress(r.RemoteAddr); ok && h.trusts(remote) {
		if forwardedScheme, forwardedHost := forwarded(r.Header); forwardedHost != "" {
			if forwardedScheme == "http" || forwardedScheme == "https" {
				scheme = forwardedScheme
			}
			host, known = forwardedHost, isHost
		}
	}
	if !known(host) {
		return ""
	}
	return scheme + "://" + host
}

// isHost reports whether s is a host with an optional port.
func isHost(s string) bool {
	_, err := hostname.Parse(s)
	return err == nil
}

func (h *Handler) trusts(ip netip.Addr) bool {
	return slices.ContainsFunc(h.cfg.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// clientAddress returns the address that r came from: that of the connection, or if that is a trusted proxy's, the one
// that it names, and so on.
func (h *Handler) clientAddress(r *http.Request) string {
	remote, ok := parseAddress(r.RemoteAddr)
	if !ok || !h.trusts(remote) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		return host
	}
	for before := range forwardedFor(r.Header) {
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

// parseAddress reads an address with or without a port, as connections have it and as proxies write it.
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

// forwardedFor returns the addresses that the proxies on the way had the request from, that of the nearest proxy first.
func forwardedFor(header http.Header) iter.Seq[string] {
	if lines := header["X-Forwarded-For"]; len(lines) > 0 {
		return backward(lines)
	}
	return func(yield func(string) bool) {
		for element := range backward(standard(header)) {
			if !yield(forwardedPairs(element)["for"]) {
				return
			}
		}
	}
}

// standard returns the lines of Forwarded (RFC 7239), which few proxies write. Beside a header of the other kind, which
// most write, they may be the client's.
func standard(header http.Header) []string {
	for name := range header {
		if strings.HasPrefix(name, "X-Forwarded-") {
			return nil
		}
	}
	return header["Forwarded"]
}

// forwarded returns what the nearest proxy says of the request that it got: the last element of X-Forwarded-Proto and
// X-Forwarded-Host, or else of Forwarded.
func forwarded(header http.Header) (scheme, host string) {
	if lines := header["X-Forwarded-Host"]; len(lines) > 0 {
		return strings.ToLower(last(header["X-Forwarded-Proto"])), last(lines)
	}
	pairs := forwardedPairs(last(standard(header)))
	return strings.ToLower(pairs["proto"]), pairs["host"]
}

// forwardedPairs returns an element of Forwarded, its names in lower case.
func forwardedPairs(element string) map[string]string {
	pairs := map[string]string{}
	for pair := range strings.SplitSeq(element, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		pairs[strings.ToLower(name)] = strings.Trim(value, `"`)
	}
	return pairs
}

// last returns the last element of a list that may be spread over lines.
func last(lines []string) string {
	for element := range backward(lines) {
		return element
	}
	return ""
}

// backward returns the elements of a list that may be spread over lines, the last first.
func backward(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, line := range slices.Backward(lines) {
			for _, element := range slices.Backward(strings.Split(line, ",")) {
				if !yield(strings.TrimSpace(element)) {
					return
				}
			}
		}
	}
}
