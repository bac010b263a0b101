package egress

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// target is the destination of a connection.
type target struct {
	host  string     // a hostname in lower case, or an address in canonical form
	ip    netip.Addr // valid if host is an address
	port  uint16
	plain bool // without TLS
}

const maxURL, maxHost = 8 << 10, 253 // bytes

// resolve returns the URL of ref in its canonical spelling. A relative ref is relative to base, unless base is nil. The error
// is [ErrRefused]. It does not show a ref that cannot be parsed.
func resolve(base *url.URL, ref string) (*url.URL, error) {
	if len(ref) > maxURL {
		return nil, fmt.Errorf("%w: a URL of %d bytes, longer than %d", ErrRefused, len(ref), maxURL)
	}
	u, err := url.Parse(ref)
	if err != nil {
		return nil, fmt.Errorf("%w: the URL cannot be parsed", ErrRefused)
	}
	if base != nil {
		u = base.ResolveReference(u)
	}
	t, err := targetOf(u)
	if err != nil {
		return nil, err
	}
	u.Host = t.url().Host
	u.Fragment, u.RawFragment = "", ""
	u.RawQuery = strings.ReplaceAll(u.RawQuery, " ", "%20")
	return u, nil
}

// targetOf returns the destination of u.
func targetOf(u *url.URL) (target, error) {
	host := u.Hostname()
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return target{}, fmt.Errorf("%w: scheme %.20q: only https and http are followed", ErrRefused, u.Scheme)
	case u.User != nil:
		return target{}, fmt.Errorf("%w: the URL carries user information; configure a credential instead", ErrRefused)
	case u.Opaque != "" || host == "":
		return target{}, fmt.Errorf("%w: the URL has no host", ErrRefused)
	case strings.HasPrefix(u.Host, "[") != strings.Contains(host, ":") || strings.HasSuffix(u.Host, ":"):
		return target{}, fmt.Errorf("%w: host %.80q", ErrRefused, u.Host)
	}
	t, err := parseHost(host)
	if err != nil {
		return target{}, err
	}
	t.plain = u.Scheme == "http"
	t.port = defaultPort[t.plain]
	if port := u.Port(); port != "" {
		t.port, err = parsePort(port)
	}
	return t, err
}

var defaultPort = map[bool]uint16{true: 80, false: 443} // by target.plain

// parseHostport parses "host:port" or "[address]:port".
func parseHostport(s string) (target, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return target{}, fmt.Errorf("%w: %.80q is not host:port", ErrRefused, s)
	}
	t, err := parseHost(host)
	if err != nil {
		return target{}, err
	}
	t.port, err = parsePort(port)
	return t, err
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%w: port %.20q", ErrRefused, s)
	}
	return uint16(n), nil
}

const label = `[0-9A-Za-z_]([0-9A-Za-z_-]{0,61}[0-9A-Za-z_])?` // of a hostname

var (
	hostname = regexp.MustCompile(`^` + label + `(\.` + label + `)*$`)
	// number matches the end of a host that some programs parse as an address
	// (https://url.spec.whatwg.org/#ends-in-a-number-checker).
	number = regexp.MustCompile(`(^|\.)([0-9]+|0[Xx][0-9A-Fa-f]*)$`)
)

// parseHost parses an ASCII hostname or an address: four decimal numbers for IPv4, no zone for IPv6. It refuses forms that
// other programs parse as an address (0x7f.1, 2130706433, 127.1, 0177.0.0.1), and names that end with a dot.
func parseHost(s string) (target, error) {
	if ip, err := netip.ParseAddr(s); err == nil && ip.Zone() == "" {
		ip = ip.Unmap()
		return target{host: ip.String(), ip: ip}, nil
	}
	if len(s) > maxHost || !hostname.MatchString(s) || number.MatchString(s) {
		return target{}, fmt.Errorf("%w: host %.80q is neither a hostname in ASCII nor a plain address", ErrRefused, s)
	}
	return target{host: strings.ToLower(s)}, nil
}

// hostport returns the address to dial. It always has a port.
func (t target) hostport() string {
	return net.JoinHostPort(t.host, strconv.Itoa(int(t.port)))
}

// url returns the root URL of t. It omits the scheme's default port.
func (t target) url() *url.URL {
	u := &url.URL{Scheme: "https", Host: t.hostport()}
	if t.plain {
		u.Scheme = "http"
	}
	if t.port == defaultPort[t.plain] {
		u.Host = strings.TrimSuffix(u.Host, ":"+strconv.Itoa(int(t.port)))
	}
	return u
}

// Origin returns scheme://host, with a port unless it is the scheme's default. It returns an empty string for a URL that is never
// requested: see [ErrRefused].
func Origin(u *url.URL) string {
	if t, err := targetOf(u); err == nil {
		return t.url().String()
	}
	return ""
}

// Redact returns u for people: without user information, query and fragment.
func Redact(u *url.URL) string {
	if u.Opaque != "" {
		return u.Scheme + ":" + redacted
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
