package rewrite

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

const (
	protocol = "v1/modules" // below the hostname
	suffix   = ".tar.gz"
)

// PackagePath is the path at which the proxy serves one version, from the root and escaped as a URL wants it:
//
//	/{host}/v1/modules/{namespace}/{name}/{system}/{version}/{name}-{system}-{version}.tar.gz
//
// The module has been checked and the version is canonical.
func PackagePath(m modproxy.Module, version string) string {
	return "/" + strings.Join([]string{
		m.Host, protocol, m.Namespace, m.Name, m.System, version, fileName(m, version),
	}, "/")
}

func fileName(m modproxy.Module, version string) string {
	return m.Name + "-" + m.System + "-" + version + suffix
}

// ParsePackagePath is the inverse of [PackagePath]. It takes an escaped path and no other spelling of it than
// PackagePath's, except that characters may be percent-encoded needlessly.
//
// Its error is [modproxy.ErrInvalid].
func ParsePackagePath(escaped string) (m modproxy.Module, version string, err error) {
	bad := func(why string) (modproxy.Module, string, error) {
		return modproxy.Module{}, "", fmt.Errorf("%w: package path: %s", modproxy.ErrInvalid, why)
	}
	parts := strings.Split(escaped, "/")
	if len(parts) != 9 || parts[0] != "" {
		return bad("want " + PackagePath(modproxy.Module{Host: "{host}", Namespace: "{namespace}", Name: "{name}", System: "{system}"}, "{version}"))
	}
	for i := range parts {
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			return bad("bad percent-encoding")
		}
	}
	host, err := hostname.Parse(hostname.Display(parts[1]))
	if err != nil || host != parts[1] {
		return bad("hostname")
	}
	if parts[2]+"/"+parts[3] != protocol {
		return bad("want " + protocol)
	}
	m = modproxy.Module{Host: host, Namespace: parts[4], Name: parts[5], System: parts[6]}
	if err := m.Check(); err != nil {
		return modproxy.Module{}, "", err
	}
	version = parts[7]
	if canonical, err := modproxy.CanonicalVersion(version); err != nil || canonical != version {
		return bad("the version is not in its canonical spelling")
	}
	if parts[8] != fileName(m, version) {
		return bad("want " + fileName(m, version))
	}
	return m, version, nil
}
