// Package hostname turns what a person or a stranger wrote for a registry's host into the one spelling by which
// modproxy knows that host.
//
// Invariant: two hosts are the same registry to a client if, and only if, their normalised spellings are equal.
// The rules are the client's own (terraform-svchost): Nameprep and IDNA, lower case, no port 443, and punycode
// as typed is refused, so that one host has one way to be written.
package hostname

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	svchost "github.com/hashicorp/terraform-svchost"

	"github.com/modproxy/modproxy"
)

const (
	// What DNS allows for a name and each of its labels, in bytes.
	maxName, maxLabel = 253, 63
	// What is looked at, in bytes: Unicode takes three times as many as punycode at most, and the port takes 6.
	maxLength = 3*maxName + 6
)

// Parse normalises a hostname with an optional port, to punycode if need be. Its error is [modproxy.ErrInvalid].
func Parse(s string) (string, error) {
	if isPlain(s) {
		return s, nil
	}
	return normalise(s)
}

// normalise is Parse by the clients' own code, which takes its time.
func normalise(s string) (string, error) {
	if len(s) > maxLength || !utf8.ValidString(s) || strings.ContainsAny(s, "/\\@?#% \t\r\n\x00") {
		return "", fmt.Errorf("%w: hostname %.80q", modproxy.ErrInvalid, s)
	}
	h, err := svchost.ForComparison(s)
	if err != nil {
		return "", fmt.Errorf("%w: hostname %.80q: %w", modproxy.ErrInvalid, s, err)
	}
	name, _, _ := strings.Cut(string(h), ":")
	bad := func(label string) bool { return label == "" || len(label) > maxLabel }
	if strings.HasPrefix(name, "-") || len(name) > maxName || slices.ContainsFunc(strings.Split(name, "."), bad) {
		return "", fmt.Errorf("%w: hostname %.80q", modproxy.ErrInvalid, s)
	}
	// What can be shown but not typed again would be a second spelling.
	shown, ok := display(h)
	if again, err := svchost.ForComparison(shown); !ok || err != nil || again != h {
		return "", fmt.Errorf("%w: hostname %.80q cannot be written in Unicode", modproxy.ErrInvalid, s)
	}
	return string(h), nil
}

// display returns how h is shown. The clients' code panics for some names that can be compared and not shown.
func display(h svchost.Hostname) (shown string, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return h.ForDisplay(), true
}

// isPlain reports whether s is plainly in its normalised spelling already, and shown in it; it may be wrong only in saying no.
func isPlain(s string) bool {
	name, port, hasPort := strings.Cut(s, ":")
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || n == 443 || port[0] == '0' || port[0] == '+' {
			return false
		}
	}
	other := func(c rune) bool { return !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-') }
	for label := range strings.SplitSeq(name, ".") {
		if len(label) == 0 || len(label) > maxLabel || strings.Contains(label, "--") || label[0] == '-' ||
			label[len(label)-1] == '-' || strings.ContainsFunc(label, other) {
			return false
		}
	}
	return len(name) <= maxName
}

// Display returns how a normalised hostname is shown to people: Unicode for an internationalised name.
func Display(normalised string) string {
	if isPlain(normalised) {
		return normalised
	}
	return svchost.ForDisplay(normalised)
}

// ParseModule reads a module address as people write it, by default at host. Its error is [modproxy.ErrInvalid].
func ParseModule(s, host string) (m modproxy.Address, err error) {
	parts := strings.Split(s, "/")
	if len(parts) == 3 && host != "" {
		parts = append([]string{host}, parts...)
	}
	if len(parts) != 4 {
		return m, fmt.Errorf("%w: %.200q is no module address: want registry.example.com/namespace/name/system", modproxy.ErrInvalid, s)
	}
	m = modproxy.Address{Namespace: parts[1], Name: parts[2], System: parts[3]}
	if m.Host, err = Parse(Display(parts[0])); err != nil {
		return modproxy.Address{}, err
	}
	return m, m.Check()
}

// ParseAddress reads the address of a module or of a provider as people write it. Without its hostname it is one of host:
// namespace/name/system, or namespace/type. Where host is empty the hostname has to be there. Three parts are a provider if
// they begin with a hostname, which has a dot or a port, or where it has to be there is localhost. Its error is [modproxy.ErrInvalid].
func ParseAddress(s, host string) (m modproxy.Address, err error) {
	parts := strings.Split(s, "/")
	if len(parts) == 2 && host != "" {
		parts = append([]string{Display(host)}, parts...)
	}
	if len(parts) != 3 || !strings.ContainsAny(parts[0], ".:") && (host != "" || parts[0] != "localhost") {
		if len(parts) != 3 && len(parts) != 4 {
			return m, fmt.Errorf("%w: %.200q is no address: want registry.example.com/namespace/name/system for a module, "+
				"registry.example.com/namespace/type for a provider", modproxy.ErrInvalid, s)
		}
		return ParseModule(s, host)
	}
	if host, err = Parse(Display(parts[0])); err != nil {
		return m, err
	}
	m = modproxy.NewProvider(host, parts[1], parts[2])
	return m, m.CheckProvider()
}

// IsLocal reports whether a name or an address without a port always leads to the machine it is used on (RFC 6761, 6.3).
func IsLocal(name string) bool {
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.Unmap().IsLoopback()
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// TokenVariable returns the variable in which clients look for the token of a host; empty for a host with a
// port, which no variable can have (OpenTofu internal/command/cliconfig/credentials.go).
func TokenVariable(host string) string {
	if strings.Contains(host, ":") {
		return ""
	}
	return "TF_TOKEN_" + strings.NewReplacer("-", "__", ".", "_").Replace(host)
}
