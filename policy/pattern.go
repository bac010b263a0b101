package policy

import (
	"fmt"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

// Pattern matches module addresses, as host/namespace/name/system, or providers, as host/namespace/type. In each
// segment, * matches any number of characters, but no slash. Case does not count. The zero Pattern matches nothing.
type Pattern struct {
	text     string
	segments [4]string // in lower case; the last one is empty for providers
}

// ParsePattern reads a pattern. A host without * may have any spelling that clients accept. The error is
// [modproxy.ErrInvalid].
func ParsePattern(s string) (p Pattern, err error) {
	parts := strings.Split(s, "/")
	// Three segments whose first one has no dot are a module address without its host, not a provider.
	isProvider := len(parts) == 3 && (strings.ContainsAny(parts[0], ".:*") || parts[0] == "localhost")
	if len(parts) != 4 && !isProvider {
		return p, fmt.Errorf("%w: %.160q: want host/namespace/name/system, where * matches a segment or part of one, "+
			"as in registry.terraform.io/terraform-aws-modules/*/aws; or host/namespace/type for providers", modproxy.ErrInvalid, s)
	}
	if !strings.Contains(parts[0], "*") {
		if parts[0], err = hostname.Parse(parts[0]); err != nil {
			return p, fmt.Errorf("%.160q: %w", s, err)
		}
	}
	p.text = s
	for i, part := range parts {
		allowed := "-_*"
		if i == 0 {
			allowed = "-*.:"
		}
		if !isGlob(part, allowed) {
			return Pattern{}, fmt.Errorf("%w: %.160q: %.80q is not a valid part of an address", modproxy.ErrInvalid, s, parts[i])
		}
		part = strings.ToLower(part)
		if i == 0 {
			part = strings.TrimSuffix(part, ":443")
		}
		for strings.Contains(part, "**") {
			part = strings.ReplaceAll(part, "**", "*")
		}
		p.segments[i] = part
	}
	return p, nil
}

// isGlob reports whether s consists of ASCII letters, ASCII digits and the characters in allowed.
func isGlob(s, allowed string) bool {
	return s != "" && len(s) <= 300 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(allowed, r)
	})
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

// IsZero reports whether p is the zero Pattern, which matches nothing.
func (p Pattern) IsZero() bool { return p.text == "" }

// IsOfProviders reports whether p matches providers instead of modules.
func (p Pattern) IsOfProviders() bool { return !p.IsZero() && p.Module().IsProvider() }

// MarshalText implements [encoding.TextMarshaler].
func (p Pattern) MarshalText() ([]byte, error) { return []byte(p.text), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. Its error is that of [ParsePattern]. An empty text is the zero
// Pattern.
func (p *Pattern) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*p = Pattern{}
		return nil
	}
	*p, err = ParsePattern(string(text))
	return err
}

// Match reports whether p matches m.
func (p Pattern) Match(m modproxy.Address) bool {
	if p.Module().Kind() != m.Kind() {
		return false
	}
	for i, s := range segmentsOf(m.Folded()) {
		if !matches(p.segments[i], s) {
			return false
		}
	}
	return true
}

// Module returns the pattern as the address in a [modproxy.Decision].
func (p Pattern) Module() modproxy.Address {
	return modproxy.Address{Host: p.segments[0], Namespace: p.segments[1], Name: p.segments[2], System: p.segments[3]}
}

// ParseAddress reads the address of a decision: a module address as [hostname.ParseAddress] does, or a glob as
// [ParsePattern] does.
func ParseAddress(s, host string) (modproxy.Address, error) {
	if !strings.Contains(s, "*") {
		return hostname.ParseAddress(s, host)
	}
	p, err := ParsePattern(s)
	return p.Module(), err
}

func isGlobAddress(m modproxy.Address) bool { return (&modproxy.Decision{Address: m}).IsGlob() }

func segmentsOf(m modproxy.Address) [4]string {
	return [4]string{m.Host, m.Namespace, m.Name, m.System}
}

// MatchName reports whether a glob, in which * matches any characters, matches a name. Case does not count.
func MatchName(glob, name string) bool { return matches(strings.ToLower(glob), strings.ToLower(name)) }

// matches reports whether glob, in which * matches any characters, matches s. For each star it takes time proportional
// to the length of both at most.
func matches(glob, s string) bool {
	prefix, rest, ok := strings.Cut(glob, "*")
	if !ok {
		return glob == s
	}
	s, ok = strings.CutPrefix(s, prefix)
	for ok {
		var part string
		if part, rest, ok = strings.Cut(rest, "*"); !ok {
			return strings.HasSuffix(s, part)
		}
		_, s, ok = strings.Cut(s, part)
	}
	return false
}

// contains reports whether a matches everything that b matches. a is a folded address or glob.
func contains(a, b modproxy.Address) bool {
	of, in := segmentsOf(a), segmentsOf(b)
	for i := range of {
		if !matches(of[i], in[i]) || of[i] == "*" && in[i] == "" { // the System of a provider is empty
			return false
		}
	}
	return true
}

// overlap reports whether an address exists that both a and b match. a and b are folded addresses or globs.
func overlap(a, b modproxy.Address) bool {
	these, those := segmentsOf(a), segmentsOf(b)
	for i := range these {
		if (these[i] == "") != (those[i] == "") || !globsOverlap(these[i], those[i]) {
			return false
		}
	}
	return true
}

// globsOverlap reports whether a name exists that both globs match.
func globsOverlap(a, b string) bool {
	// can[j] reports whether a text exists that both the current prefix of a and b[:j] match.
	can := make([]bool, len(b)+1)
	for j := range can {
		can[j] = strings.Trim(b[:j], "*") == ""
	}
	for i := range len(a) {
		before := can[0] // for a[:i] and b[:j-1]
		can[0] = can[0] && a[i] == '*'
		for j := 1; j <= len(b); j++ {
			above := can[j]
			switch {
			case a[i] == '*' || b[j-1] == '*':
				can[j] = above || can[j-1]
			default:
				can[j] = before && a[i] == b[j-1]
			}
			before = above
		}
	}
	return can[len(b)]
}
