// Package hostname turns what a person or a stranger wrote for a registry's host
// into the one spelling by which modproxy knows that host.
//
// Invariant: two hosts are the same registry to a client if, and only if, their
// normalised spellings are equal. The rules are the client's own
// (terraform-svchost): Nameprep and IDNA, lower case, no port 443, and punycode as
// typed is refused, so that one host has one way to be written.
package hostname

import (
	"fmt"
	"strings"
	"unicode/utf8"

	svchost "github.com/hashicorp/terraform-svchost"

	"github.com/modproxy/modproxy"
)

// maxLength bounds what is looked at, in bytes: 253 for the name, 6 for the port.
const maxLength = 259

// Parse normalises a hostname with an optional port. The result is ASCII: an
// internationalised name is in its punycode form.
//
// Its error is [modproxy.ErrInvalid].
func Parse(s string) (string, error) {
	if len(s) > maxLength || !utf8.ValidString(s) || strings.ContainsAny(s, "/\\@?#% \t\r\n\x00") {
		return "", fmt.Errorf("%w: hostname %.80q", modproxy.ErrInvalid, s)
	}
	h, err := svchost.ForComparison(s)
	if err != nil {
		return "", fmt.Errorf("%w: hostname %.80q: %w", modproxy.ErrInvalid, s, err)
	}
	name, _, _ := strings.Cut(string(h), ":")
	if name == "" || strings.HasPrefix(name, "-") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") {
		return "", fmt.Errorf("%w: hostname %.80q", modproxy.ErrInvalid, s)
	}
	// What can be shown but not typed again would be a second spelling.
	if again, err := svchost.ForComparison(h.ForDisplay()); err != nil || again != h {
		return "", fmt.Errorf("%w: hostname %.80q cannot be written in Unicode", modproxy.ErrInvalid, s)
	}
	return string(h), nil
}

// Display is how a normalised hostname is shown to people: Unicode for an
// internationalised name.
func Display(normalised string) string {
	return svchost.ForDisplay(normalised)
}
