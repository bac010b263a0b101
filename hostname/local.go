package hostname

import "strings"

// IsLocalhost reports whether a name without a port is one that always leads to the machine it is used on (RFC
// 6761, 6.3).
func IsLocalhost(name string) bool {
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
