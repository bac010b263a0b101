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

// origin is the URL, without a trailing slash, under which the client that sent
// r sees this proxy; empty if that cannot be known. What a client says of itself
// is not believed: it would end up in answers.
func (h *Handler) origin(r *http.Request) string {
	if h.cfg.PublicURL != "" {
		return h.cfg.PublicURL
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if len(h.cfg.TrustedProxies) > 0 && h.trusted(r.RemoteAddr) {
		if fscheme, fhost := forwarded(r.Header); fhost != "" {
			if fscheme == "http" || fscheme == "https" {
				scheme = fscheme
			}
			if isHost(fhost) {
				return scheme + "://" + fhost
			}
			return ""
		}
	}
	if h.cfg.Known != nil && h.cfg.Known(r.Host) {
		return scheme + "://" + r.Host
	}
	if _, ok := h.cfg.Upstreams.byName(r.Host); ok {
		return scheme + "://" + r.Host
	}
	return ""
}

func (h *Handler) trusted(remote string) bool {
	ip, ok := parseAddress(remote)
	return ok && h.trustedAddress(ip)
}

func (h *Handler) trustedAddress(ip netip.Addr) bool {
	for _, p := range h.cfg.TrustedProxies {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// clientAddress is the address that r came from: that of the connection, or if
// that is a trusted proxy's, whom it names, and so on.
func (h *Handler) clientAddress(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	remote, ok := parseAddress(r.RemoteAddr)
	if len(h.cfg.TrustedProxies) == 0 || !ok || !h.trustedAddress(remote) {
		return host
	}
	for before := range forwardedFor(r.Header) {
		ip, ok := parseAddress(before)
		if !ok {
			break
		}
		if remote = ip; !h.trustedAddress(ip) {
			break
		}
	}
	return remote.String()
}

// parseAddress reads an address with or without a port, as connections have it and
// as proxies write it.
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

// forwardedFor are those whom each proxy says that it had a request from, the
// nearest proxy first.
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

// standard are the lines of Forwarded (RFC 7239), which few proxies know: beside any
// header of the other kind, which they do, they may be the client's.
func standard(header http.Header) []string {
	for name := range header {
		if strings.HasPrefix(name, "X-Forwarded-") {
			return nil
		}
	}
	return header["Forwarded"]
}

// forwarded is what the nearest proxy says of the request that it got: the last
// element of X-Forwarded-Proto and -Host, or else of Forwarded.
func forwarded(header http.Header) (scheme, host string) {
	if lines := header["X-Forwarded-Host"]; len(lines) > 0 {
		return strings.ToLower(last(header["X-Forwarded-Proto"])), last(lines)
	}
	pairs := forwardedPairs(last(standard(header)))
	return strings.ToLower(pairs["proto"]), pairs["host"]
}

// forwardedPairs is an element of Forwarded, its names in lower case.
func forwardedPairs(element string) map[string]string {
	pairs := map[string]string{}
	for pair := range strings.SplitSeq(element, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		pairs[strings.ToLower(name)] = strings.Trim(value, `"`)
	}
	return pairs
}

// last is the last element of a list that may be spread over lines.
func last(lines []string) string {
	for element := range backward(lines) {
		return element
	}
	return ""
}

// backward are the elements of a list that may be spread over lines, the last
// first.
func backward(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, line := range slices.Backward(lines) {
			for more := true; more; {
				i := strings.LastIndexByte(line, ',')
				element := strings.TrimSpace(line[i+1:])
				if more = i >= 0; more {
					line = line[:i]
				}
				if !yield(element) {
					return
				}
			}
		}
	}
}

// isHost reports whether s is a host with an optional port, and nothing else.
func isHost(s string) bool {
	_, err := hostname.Parse(s)
	return err == nil
}
