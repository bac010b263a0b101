package protocol

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

// parseModule reads the paths of modules.v1, of the registry's own API beside it, and of packages.
func (u *Upstreams) parseModule(requestHost, path string) (Request, error) {
	if strings.HasSuffix(path, ".tar.gz") {
		v, err := parsePackagePath(path)
		if err != nil {
			return Request{}, err
		}
		return Request{Kind: KindPackage, Ref: v}, u.allowed(v.Host)
	}
	if strings.HasSuffix(path, "/v1/modules") {
		path += "/"
	}
	before, rest, found := strings.Cut(path, "/"+ModulesPath)
	host := strings.TrimPrefix(before, "/")
	if !found || strings.Contains(host, "/") {
		return Request{}, NotFound("want /{registry host}/v1/modules/… or /v1/modules/…")
	}
	parts, err := unescaped(rest)
	if err != nil {
		return Request{}, err
	}
	q, err := parseModuleParts(parts)
	if err != nil {
		return Request{}, err
	}
	return u.hosted(q, requestHost, before)
}

// parseModuleParts reads the segments behind v1/modules/.
func parseModuleParts(parts []string) (q Request, err error) {
	if len(parts) < 3 {
		return parseList(parts)
	}
	if len(parts) > 5 {
		return Request{}, errModule
	}
	q.Address = modproxy.Address{Namespace: parts[0], Name: parts[1], System: parts[2]}
	if err := q.Check(); err != nil {
		return Request{}, Invalid(err)
	}
	last := parts[len(parts)-1]
	switch {
	case last == string(KindDownload), last == string(KindVersions) && len(parts) == 4:
		q.Kind = Kind(last)
	case len(parts) == 5 && parts[3] == "downloads" && last == "summary":
		q.Kind = KindDownloads
	case len(parts) == 5:
		return Request{}, errModule
	default:
		q.Kind = KindDetails
	}
	namesVersion := q.Kind == KindDetails && len(parts) == 4 || q.Kind == KindDownload && len(parts) == 5
	if !namesVersion || parts[3] == "latest" { // Checkov requests "latest" where nothing fits a constraint
		return q, nil
	}
	version, err := modproxy.CanonicalVersion(parts[3])
	if err != nil {
		return Request{}, Invalid(err)
	}
	q.Ref = q.At(version)
	return q, nil
}

// parseList reads the segments behind v1/modules/ of a list. The list of a namespace with the name search cannot be requested.
func parseList(parts []string) (q Request, err error) {
	q.Kind = KindList
	switch {
	case len(parts) == 1 && parts[0] == "":
		return q, nil
	case len(parts) == 1 && parts[0] == "search":
		q.Kind = KindSearch
		return q, nil
	case len(parts) == 2:
		q.Name = parts[1]
	}
	q.Namespace = parts[0]
	whole := modproxy.Address{Namespace: q.Namespace, Name: q.Name, System: "x"}
	if len(parts) == 1 {
		whole.Name = "x"
	}
	if err := whole.Check(); err != nil {
		return q, Invalid(err)
	}
	return q, nil
}

// parseHistory reads the paths below v2/modules/.
func (u *Upstreams) parseHistory(requestHost, path string) (q Request, err error) {
	before, rest, _ := strings.Cut(path, "/"+moduleHistoryPath)
	parts, err := unescaped(rest)
	if err != nil {
		return q, err
	}
	if len(parts) != 3 || strings.Contains(strings.TrimPrefix(before, "/"), "/") {
		return q, NotFound("want /{registry host}/v2/modules/{namespace}/{name}/{system} or /v2/modules/…")
	}
	q.Kind = KindHistory
	q.Address = modproxy.Address{Namespace: parts[0], Name: parts[1], System: parts[2]}
	if err := q.Check(); err != nil {
		return q, Invalid(err)
	}
	return u.hosted(q, requestHost, before)
}

// parseDocs reads the paths of registry-ui of OpenTofu about modules. They are sent to the host of [Upstreams.Docs].
func (u *Upstreams) parseDocs(requestHost, path string) (q Request, err error) {
	if q.Host = u.ByDocs(requestHost); q.Host == "" {
		return q, errNoDocs
	}
	parts, err := unescaped(strings.TrimPrefix(path, docsPath))
	if err != nil {
		return q, err
	}
	n := len(parts)
	if n < 4 || n > 5 || parts[n-1] != docsIndex {
		return q, NotFound("want " + docsPath + "{namespace}/{name}/{system}/index.json or …/v{version}/index.json")
	}
	q.Kind = KindDocs
	q.Namespace, q.Name, q.System = parts[0], parts[1], parts[2]
	var version string
	if err = q.Check(); err == nil && n == 5 {
		version, err = modproxy.CanonicalVersion(parts[3])
		q.Ref = q.At(version)
	}
	if err != nil {
		return q, Invalid(err)
	}
	return q, nil
}

// packagePath returns the path of the package of a module's version.
func packagePath(v modproxy.Ref) string {
	host, port, _ := strings.Cut(v.Host, ":")
	version := v.FullVersion()
	return "/" + host + "~" + port + "/" + ModulesPath + v.Namespace + "/" + v.Name + "/" + v.System + "/" + version +
		"/" + v.Name + "-" + v.System + "-" + version + ".tar.gz"
}

var (
	errPackagePath    = packageError("want /{host}~/v1/modules/{namespace}/{name}/{system}/{version}/{name}-{system}-{version}.tar.gz")
	errPackageEscape  = packageError("bad percent-encoding")
	errPackageHost    = packageError("the hostname is not in its normal spelling")
	errPackageAddress = packageError("the module address or the version is not valid")
	errPackageVersion = packageError("the version is not in its canonical spelling")
)

func packageError(text string) error {
	return &Error{http.StatusNotFound, fmt.Errorf("%w: package path: %s", modproxy.ErrInvalid, text)}
}

// parsePackagePath is the inverse of packagePath. It accepts only that spelling, except that characters may be percent-encoded
// needlessly. No error repeats the path.
func parsePackagePath(escaped string) (modproxy.Ref, error) {
	parts := strings.Split(escaped, "/")
	if len(parts) != 9 {
		return modproxy.Ref{}, errPackagePath
	}
	for i := range parts {
		var err error
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			return modproxy.Ref{}, errPackageEscape
		}
	}
	host, port, _ := strings.Cut(parts[1], "~")
	if port != "" {
		host += ":" + port
	}
	if normal, err := hostname.Parse(hostname.Display(host)); err != nil || host != normal {
		return modproxy.Ref{}, errPackageHost
	}
	v := modproxy.Address{Host: host, Namespace: parts[4], Name: parts[5], System: parts[6]}.At(parts[7])
	if v.Check() != nil {
		return modproxy.Ref{}, errPackageAddress
	}
	if canonical, err := modproxy.CanonicalVersion(parts[7]); err != nil || canonical != parts[7] {
		return modproxy.Ref{}, errPackageVersion
	}
	if path := packagePath(v); escaped != path && strings.Join(parts, "/") != path {
		return modproxy.Ref{}, errPackagePath
	}
	return v, nil
}
