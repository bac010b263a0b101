package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/rewrite"
)

// Upstreams says which registry a request is for. Hostnames are normalised.
type Upstreams struct {
	// Hosts are the registries that may be asked.
	Hosts map[string]bool
	// Private are those of Hosts that get a token: what they answer about a namespace is for clients that may read
	// modules of it.
	Private map[string]bool
	// Any allows every registry that a path names.
	Any bool
	// Default answers for the proxy's own hostname.
	Default string
	// Namespaces has, by namespace, the upstream that answers for the proxy's own hostname instead of Default. No other
	// upstream is asked for such a namespace.
	Namespaces map[string]string
}

// request is a question of the modules.v1 protocol that was checked.
type request struct {
	kind    kind
	module  modproxy.Module
	version string // canonical; empty for versions, and for the latest
}

// kind is what a request asks for, as the log and the metrics name it.
type kind string

const (
	kindVersions kind = "versions"
	kindDownload kind = "download"
	kindPackage  kind = "package"
)

const modulesPath = "v1/modules/"

// parse reads an escaped path of the protocol, sent to requestHost:
//
//	[/{host}]/v1/modules/{namespace}/{name}/{system}/versions
//	[/{host}]/v1/modules/{namespace}/{name}/{system}[/{version}]/download
//	/{host}/v1/modules/{namespace}/{name}/{system}/{version}/{file}
//
// Without a host in the path requestHost counts if it is an upstream's, and else the namespace decides.
func (u *Upstreams) parse(requestHost, path string) (request, error) {
	before, rest, found := strings.Cut(path, "/"+modulesPath)
	host := strings.TrimPrefix(before, "/")
	if !found || strings.Contains(host, "/") {
		return request{}, notFound("want /{registry host}/v1/modules/… or /v1/modules/…")
	}
	parts := strings.Split(rest, "/")
	for i, part := range parts {
		var err error
		if parts[i], err = url.PathUnescape(part); err != nil {
			return request{}, errEscape
		}
	}
	q, err := parseQuestion(parts)
	switch {
	case err != nil:
		return request{}, err
	case q.kind == kindPackage:
		return u.parsePackage(path)
	case before != "":
		q.module.Host, err = u.named(host)
	default:
		q.module.Host, err = u.own(requestHost, q.module.Namespace)
	}
	return q, err
}

// parsePackage reads the path of a package, which has one spelling.
func (u *Upstreams) parsePackage(path string) (request, error) {
	m, version, err := rewrite.ParsePackagePath(path)
	if err != nil {
		return request{}, notFound(err.Error())
	}
	if !u.Any && !u.Hosts[m.Host] {
		return request{}, foreign(m.Host)
	}
	return request{kind: kindPackage, module: m, version: version}, nil
}

// parseQuestion reads what follows v1/modules/.
func parseQuestion(parts []string) (request, error) {
	if len(parts) < 4 || len(parts) > 5 {
		return request{}, notFound("want {namespace}/{name}/{system}/versions or {namespace}/{name}/{system}/{version}/download")
	}
	q := request{module: modproxy.Module{Namespace: parts[0], Name: parts[1], System: parts[2]}}
	if err := q.module.Check(); err != nil {
		return request{}, invalid(err)
	}
	switch last := parts[len(parts)-1]; {
	case len(parts) == 4 && last == "versions":
		q.kind = kindVersions
	case last == "download":
		q.kind = kindDownload
	case len(parts) == 5 && strings.HasSuffix(last, ".tar.gz"):
		q.kind = kindPackage
	default:
		return request{}, notFound("want versions, download or a package behind the module address")
	}
	// Checkov asks for the version "latest" where nothing fits a constraint.
	if len(parts) == 4 || q.kind == kindDownload && parts[3] == "latest" {
		return q, nil
	}
	version, err := modproxy.CanonicalVersion(parts[3])
	if err != nil {
		return request{}, invalid(err)
	}
	q.version = version
	return q, nil
}

// named returns the upstream that a path names.
func (u *Upstreams) named(escaped string) (string, error) {
	if u.Hosts[escaped] {
		return escaped, nil
	}
	written, err := url.PathUnescape(escaped)
	if err != nil {
		return "", errEscape
	}
	host, err := hostname.Parse(hostname.Display(written))
	if err != nil {
		return "", invalid(err)
	}
	if !u.Any && !u.Hosts[host] {
		return "", foreign(host)
	}
	return host, nil
}

// own returns the upstream for a request without a host in its path.
func (u *Upstreams) own(requestHost, namespace string) (string, error) {
	if host, ok := u.byName(requestHost); ok {
		return host, nil
	}
	if host, ok := u.Namespaces[namespace]; ok {
		return host, nil
	}
	if u.Default == "" {
		return "", notFound("no upstream answers for namespace " + namespace)
	}
	return u.Default, nil
}

// byName returns the upstream whose hostname a request was sent to, by a site that points its DNS at the proxy.
func (u *Upstreams) byName(requestHost string) (string, bool) {
	if u.Hosts[requestHost] {
		return requestHost, true
	}
	if host, err := hostname.Parse(requestHost); err == nil && u.Hosts[host] {
		return host, true
	}
	return "", false
}

func foreign(host string) error {
	return &requestError{http.StatusForbidden, fmt.Errorf("%s is not one of this proxy's upstreams", host)}
}

var errEscape = invalid(errors.New("bad percent-encoding in the path"))
