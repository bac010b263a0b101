package tfconfig

import (
	"path"
	"regexp"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

// ParseLocalSource returns the directory of the tree that a local source (./x or ../x) of a call in dir names, and reports
// whether the source is local. A directory outside the tree begins with "..".
func ParseLocalSource(dir, source string) (string, bool) {
	source = strings.ReplaceAll(source, `\`, "/")
	if source != "." && source != ".." && !strings.HasPrefix(source, "./") && !strings.HasPrefix(source, "../") {
		return "", false
	}
	return path.Join(dir, source), true
}

// ParseRegistrySource returns the address of the registry module that a source names and the directory in its package ("." for the
// root). It reports whether the source names a module of a registry. A source without a hostname names a module of host.
//
// Clients fetch a source that is neither local nor of a registry directly.
func ParseRegistrySource(source, host string) (m modproxy.Address, subdir string, ok bool) {
	address, subdir, _ := strings.Cut(source, "//")
	subdir = path.Clean(subdir)
	m, err := hostname.ParseModule(address, host)
	named := strings.Count(address, "/") == 3
	switch {
	case err != nil, subdir == "..", strings.HasPrefix(subdir, "../"), strings.HasPrefix(subdir, "/"):
		return m, "", false
	case named && (m.Host == "github.com" || m.Host == "bitbucket.org" || !strings.Contains(m.Host, ".")):
		return m, "", false // as terraform-registry-address says
	}
	return m, subdir, true
}

// ParseProviderSource returns the address of the provider that a source names, as ParseProviderSource of terraform-registry-address
// does. A source without a hostname names a provider of host. The error is [modproxy.ErrInvalid].
func ParseProviderSource(source, host string) (m modproxy.Address, err error) {
	parts := strings.Split(source, "/")
	if len(parts) == 1 {
		parts = append([]string{"hashicorp"}, parts...)
	}
	if len(parts) == 2 {
		parts = append([]string{hostname.Display(host)}, parts...)
	}
	if len(parts) != 3 {
		return m, invalid("%.200q is not a provider address: want registry.example.com/namespace/type", source)
	}
	if host, err = hostname.Parse(parts[0]); err != nil {
		return m, err
	}
	m = modproxy.NewProvider(host, parts[1], parts[2])
	return m, m.CheckProvider()
}

// IsBuiltin reports whether a provider is part of the clients, which do not download it.
func IsBuiltin(provider modproxy.Address) bool {
	return strings.HasPrefix(provider.String(), builtin)
}

var userInformation = regexp.MustCompile(`://[^/?#]*@`)

// RedactSource returns a source without user information and query, for logs and messages.
func RedactSource(source string) string {
	source, _, _ = strings.Cut(source, "?")
	return userInformation.ReplaceAllString(source, "://")
}
