package proxy

import (
	"net/http"
	"net/netip"
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
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	for _, p := range h.cfg.TrustedProxies {
		if p.Contains(ap.Addr().Unmap()) {
			return true
		}
	}
	return false
}

// forwarded is what the nearest proxy says of the request that it got: the last
// element of Forwarded (RFC 7239), or else of X-Forwarded-Proto and -Host.
func forwarded(header http.Header) (scheme, host string) {
	if lines := header["Forwarded"]; len(lines) > 0 {
		for pair := range strings.SplitSeq(last(lines), ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
			value = strings.Trim(value, `"`)
			switch strings.ToLower(name) {
			case "proto":
				scheme = strings.ToLower(value)
			case "host":
				host = value
			}
		}
		return scheme, host
	}
	return strings.ToLower(last(header["X-Forwarded-Proto"])), last(header["X-Forwarded-Host"])
}

// last is the last element of a list that may be spread over lines.
func last(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	line := lines[len(lines)-1]
	return strings.TrimSpace(line[strings.LastIndexByte(line, ',')+1:])
}

// isHost reports whether s is a host with an optional port, and nothing else.
func isHost(s string) bool {
	_, err := hostname.Parse(s)
	return err == nil
}
