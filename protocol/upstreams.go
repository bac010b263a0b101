package protocol

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy/hostname"
)

// Upstreams are the registries that requests may be for. Hostnames are normalised. Upstreams are not changed while they are used.
type Upstreams struct {
	// Hosts are the registries that may be requested.
	Hosts map[string]bool
	// Own is the registry among Hosts whose hostname is the proxy's own. Requests to that hostname are not only for that registry, but
	// for the upstreams of all namespaces. It may be empty.
	Own string
	// Modules is the registry of own modules among Hosts, which has no providers. It may be empty.
	Modules string
	// Any allows every registry that a path names.
	Any bool
	// Default answers for the proxy's own hostname.
	Default string
	// Namespaces has the only upstream for a namespace under the proxy's own hostname, instead of Default. An entry for acme also
	// applies to Acme and ACME, unless these have entries of their own. So a private namespace is not requested from Default in
	// another case.
	Namespaces map[string]string
	// Docs has the upstream whose modules and providers the API at a hostname describes, as api.opentofu.org does.
	Docs map[string]string
}

// InPath returns the upstream that an escaped segment of a path names. If it names a registry that is not allowed, InPath
// returns that registry and an [Error] with status 403.
func (u *Upstreams) InPath(escaped string) (string, error) {
	if u.Hosts[escaped] {
		return escaped, nil
	}
	written, err := url.PathUnescape(escaped)
	if err != nil {
		return "", errEscape
	}
	host, err := hostname.Parse(hostname.Display(written))
	if err != nil {
		return "", Invalid(err)
	}
	return host, u.allowed(host)
}

func (u *Upstreams) allowed(host string) error {
	if !u.Any && !u.Hosts[host] {
		return &Error{http.StatusForbidden, fmt.Errorf("%s is not one of this proxy's upstreams (operator: add it to upstreams)", host)}
	}
	return nil
}

// For returns the upstream for a request to requestHost without a registry in its path.
func (u *Upstreams) For(requestHost, namespace string) (string, error) {
	host := cmp.Or(u.ByHost(requestHost), u.ByNamespace(namespace))
	if host == "" {
		return "", NotFound("no upstream answers for namespace " + namespace)
	}
	return host, nil
}

// ByNamespace returns the upstream for a namespace under the proxy's own hostname, or "".
func (u *Upstreams) ByNamespace(namespace string) string {
	if host := u.Namespaces[namespace]; host != "" {
		return host
	}
	nearest := ""
	for name := range u.Namespaces {
		if strings.EqualFold(name, namespace) && (nearest == "" || name < nearest) {
			nearest = name
		}
	}
	return cmp.Or(u.Namespaces[nearest], u.Default)
}

// ByHost returns the upstream whose hostname a Host header has, because a site points its DNS at the proxy, or "". It never returns
// Own.
func (u *Upstreams) ByHost(requestHost string) string {
	if host, err := hostname.Parse(requestHost); err == nil && u.Hosts[host] && host != u.Own {
		return host
	}
	return ""
}

// ByDocs returns the upstream that is described at the hostname of a Host header, or "".
func (u *Upstreams) ByDocs(requestHost string) string {
	host, err := hostname.Parse(requestHost)
	if err != nil {
		return ""
	}
	return u.Docs[host]
}

// hosted returns q with its upstream: the one that the path names before q, or else the one for a request to requestHost.
func (u *Upstreams) hosted(q Request, requestHost, before string) (_ Request, err error) {
	if before == "" {
		q.ByNamespace = u.ByHost(requestHost) == ""
		q.Host, err = u.For(requestHost, q.Namespace)
	} else {
		q.Host, err = u.InPath(strings.TrimPrefix(before, "/"))
	}
	return q, err
}

// ofProvider returns the upstream for a request to requestHost for a provider: the one that the path names before it, if any.
// Without one requestHost must be an upstream's: a provider whose address has the proxy's own hostname is another one. foreign
// is the status for a registry that is not an upstream.
func (u *Upstreams) ofProvider(requestHost, before string, foreign int) (string, error) {
	if before != "" {
		return u.ofProviders(strings.TrimPrefix(before, "/"), foreign)
	}
	host := u.ByHost(requestHost)
	if host == "" {
		return "", NotFound("want /{registry host}/v1/providers/…: no provider has this proxy's own hostname")
	}
	return host, nil
}

// ofProviders is InPath with another status for a registry that is not an upstream: about a 403 clients say that they need
// credentials.
func (u *Upstreams) ofProviders(escaped string, foreign int) (string, error) {
	host, err := u.InPath(escaped)
	if err != nil && host != "" {
		err = &Error{foreign, err}
	}
	return host, err
}
