package hostname

import "strings"

// IsLocalhost reports whether a name without a port is one that always leads to the
// machine it is used on (RFC 6761, 6.3).
func IsLocalhost(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}
