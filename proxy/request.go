package proxy

import (
	"cmp"
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
	// Any allows every registry that a path names.
	Any bool
	// Default answers for the proxy's own hostname.
	Default string
	// Namespaces has the only upstream for a namespace under the proxy's own hostname, instead of Default. It counts for every
	// spelling of a namespace but one that it has, too: a name that is private in one case is not asked for elsewhere in another.
	Namespaces map[string]string
	// Docs has the upstream whose modules the API at a hostname describes, as api.opentofu.org does.
	Docs map[string]string
}

// request is a question of one of the protocols that was checked. The version is empty for versions, and for the latest.
type request struct {
	kind kind
	modproxy.Ref
	own bool   // the namespace says which upstream it is for
	id  string // of a document
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
//	[/{host}]/v1/modules/{namespace}/{name}/{system}[/{version}]
//	[/{host}]/v1/modules/{namespace}/{name}/{system}/downloads/summary
//	/{host}~{port}/v1/modules/{namespace}/{name}/{system}/{version}/{file}, see [rewrite.PackagePath]
//
// and those of parseList.
// Without a host in the path requestHost counts if it is an upstream's, and else the namespace decides.
func (u *Upstreams) parse(requestHost, path string) (request, error) {
	if strings.HasSuffix(path, ".tar.gz") {
		v, err := rewrite.ParsePackagePath(path) // which has one spelling
		if err != nil {
			return request{}, notFound(err.Error())
		}
		return request{kind: kindPackage, Ref: v}, u.allowed(v.Host)
	}
	if strings.HasSuffix(path, "/v1/modules") {
		path += "/"
	}
	before, rest, found := strings.Cut(path, "/"+modulesPath)
	host := strings.TrimPrefix(before, "/")
	if !found || strings.Contains(host, "/") {
		return request{}, notFound("want /{registry host}/v1/modules/… or /v1/modules/…")
	}
	q, err := parseQuestion(strings.Split(rest, "/"))
	if err != nil {
		return request{}, err
	}
	return u.hosted(q, requestHost, before)
}

// hosted returns q with its upstream: the one that the path names before it, or else the one for a request to requestHost.
func (u *Upstreams) hosted(q request, requestHost, before string) (_ request, err error) {
	if before == "" {
		q.own = u.byName(requestHost) == ""
		q.Host, err = u.own(requestHost, q.Namespace)
	} else {
		q.Host, err = u.named(strings.TrimPrefix(before, "/"))
	}
	return q, err
}

// parseQuestion reads the parts of what follows v1/modules/, in place.
func parseQuestion(parts []string) (q request, err error) {
	for i, part := range parts {
		if parts[i], err = url.PathUnescape(part); err != nil {
			return request{}, errEscape
		}
	}
	if len(parts) < 3 {
		return parseList(parts)
	}
	if len(parts) > 5 {
		return request{}, errQuestion
	}
	q.Address = modproxy.Address{Namespace: parts[0], Name: parts[1], System: parts[2]}
	if err := q.Check(); err != nil {
		return request{}, invalid(err)
	}
	last := parts[len(parts)-1]
	switch {
	case last == string(kindDownload), last == string(kindVersions) && len(parts) == 4:
		q.kind = kind(last)
	case len(parts) == 5 && parts[3] == "downloads" && last == "summary":
		q.kind = kindDownloads
	case len(parts) == 5:
		return request{}, errQuestion
	default:
		q.kind = kindDetails
	}
	asksVersion := q.kind == kindDetails && len(parts) == 4 || q.kind == kindDownload && len(parts) == 5
	if !asksVersion || parts[3] == "latest" { // Checkov asks for "latest" where nothing fits a constraint
		return q, nil
	}
	version, err := modproxy.CanonicalVersion(parts[3])
	if err != nil {
		return request{}, invalid(err)
	}
	q.Ref = q.At(version)
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
	return host, u.allowed(host)
}

func (u *Upstreams) allowed(host string) error {
	if !u.Any && !u.Hosts[host] {
		return &requestError{http.StatusForbidden, fmt.Errorf("%s is not one of this proxy's upstreams (operator: add it to upstreams)", host)}
	}
	return nil
}

// own returns the upstream for a request without a host in its path.
func (u *Upstreams) own(requestHost, namespace string) (string, error) {
	host := cmp.Or(u.byName(requestHost), u.Own(namespace))
	if host == "" {
		return "", notFound("no upstream answers for namespace " + namespace)
	}
	return host, nil
}

// Own returns the upstream for a namespace under the proxy's own hostname, or "".
func (u *Upstreams) Own(namespace string) string {
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

// byName returns the upstream whose hostname a request was sent to, by a site that points its DNS at the proxy, or "".
func (u *Upstreams) byName(requestHost string) string {
	if host, err := hostname.Parse(requestHost); err == nil && u.Hosts[host] {
		return host
	}
	return ""
}

var (
	errEscape   = invalid(errors.New("bad percent-encoding in the path"))
	errQuery    = invalid(errors.New("bad percent-encoding in the query"))
	errQuestion = notFound("want {namespace}/{name}/{system}/versions, …/{version}, …/{version}/download or …/downloads/summary")
)
