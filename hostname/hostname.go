// Package hostname normalises the hostnames of registries and parses module addresses.
//
//	host, err := hostname.Parse("Bücher.example:443") // xn--bcher-kva.example
//	m, err := hostname.ParseModule("registry.example.com/acme/network/aws", "")
//
// Invariant: two hosts are the same registry to a client exactly if their normalised spellings are equal. A host has several
// spellings, such as "Bücher.example:443" and "bücher.example", and one normalised spelling.
//
// [Parse] refuses punycode, as clients do, so it does not accept all of its results. [ParseModule] and [ParseAddress] accept
// a hostname in Unicode or in its normalised spelling, so they parse what [modproxy.Address.String] returns.
//
// The rules are the clients' own (terraform-svchost): Nameprep and IDNA, lower case, no port 443.
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
	// The limits of DNS for a name and for each of its labels, in bytes.
	maxName, maxLabel = 253, 63
	// The maximum length of the input, in bytes: Unicode needs at most three times as many bytes as punycode, and the port
	// needs 6.
	maxLength = 3*maxName + 6
)

// Parse normalises a hostname with an optional port, to punycode if necessary. It refuses punycode in s: to parse a hostname that
// may already be normalised, call Parse(Display(s)). Errors wrap [modproxy.ErrInvalid].
func Parse(s string) (string, error) {
	if isPlain(s) {
		return s, nil
	}
	return normalise(s)
}

// normalise is Parse with the clients' own code, which is slow.
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
	// A name that can be displayed but not parsed again would be a second spelling.
	shown, ok := display(h)
	if again, err := svchost.ForComparison(shown); !ok || err != nil || again != h {
		return "", fmt.Errorf("%w: hostname %.80q cannot be written in Unicode", modproxy.ErrInvalid, s)
	}
	return string(h), nil
}

// display returns the displayed form of h. The clients' code panics for some names that it can normalise but not display.
func display(h svchost.Hostname) (shown string, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return h.ForDisplay(), true
}

// isPlain reports whether s is already normalised and equal to its displayed form. It may return false for such a name, but
// never true for another name.
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

// Display returns the form of a normalised hostname for people: Unicode for an internationalised name.
func Display(normalised string) string {
	if isPlain(normalised) {
		return normalised
	}
	return svchost.ForDisplay(normalised)
}

// ParseModule parses a module address as people write it, or as [modproxy.Address.String] returns it. If s has no hostname, the host
// is host, which may be in any spelling. If host is empty, s must have a hostname. Errors wrap [modproxy.ErrInvalid].
func ParseModule(s, host string) (m modproxy.Address, err error) {
	parts := strings.Split(s, "/")
	if len(parts) == 3 && host != "" {
		parts = append([]string{host}, parts...)
	}
	if len(parts) != 4 {
		return m, fmt.Errorf("%w: %.200q is not a module address: want registry.example.com/namespace/name/system", modproxy.ErrInvalid, s)
	}
	m = modproxy.Address{Namespace: parts[1], Name: parts[2], System: parts[3]}
	if m.Host, err = Parse(Display(parts[0])); err != nil {
		return modproxy.Address{}, err
	}
	return m, m.Check()
}

// ParseAddress parses the address of a module or of a provider as people write it, or as [modproxy.Address.String] returns it:
//
//	namespace/type               a provider of host
//	namespace/name/system        a module of host
//	hostname/namespace/type      a provider
//	hostname/namespace/name/system  a module
//
// Three parts are a provider if the first part has a dot or a port, and otherwise a module. If host is empty, s must have a
// hostname, and three parts are also a provider if the first is localhost. host must be normalised. Errors wrap
// [modproxy.ErrInvalid].
func ParseAddress(s, host string) (m modproxy.Address, err error) {
	parts := strings.Split(s, "/")
	if len(parts) == 2 && host != "" {
		parts = append([]string{Display(host)}, parts...)
	}
	if len(parts) != 3 || !strings.ContainsAny(parts[0], ".:") && (host != "" || parts[0] != "localhost") {
		if len(parts) != 3 && len(parts) != 4 {
			return m, fmt.Errorf("%w: %.200q is not an address: want registry.example.com/namespace/name/system for a module, "+
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

// IsLocal reports whether a name or an address without a port always refers to the local machine: localhost, the names below it
// (RFC 6761, 6.3), and loopback addresses.
func IsLocal(name string) bool {
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.Unmap().IsLoopback()
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// TokenVariable returns the name of the environment variable from which clients read the token of a normalised host:
// TF_TOKEN_xn____bcher__kva_example for xn--bcher-kva.example. It is empty for a host with a port, which no variable can have
// (OpenTofu internal/command/cliconfig/credentials.go).
func TokenVariable(host string) string {
	if strings.Contains(host, ":") {
		return ""
	}
	return "TF_TOKEN_" + strings.NewReplacer("-", "__", ".", "_").Replace(host)
}
