package protocol

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

var (
	errEscape      = Invalid(errors.New("bad percent-encoding in the path"))
	errQuery       = Invalid(errors.New("bad percent-encoding in the query"))
	errModule      = NotFound("want {namespace}/{name}/{system}/versions, …/{version}, …/{version}/download or …/downloads/summary")
	errNoDocs      = NotFound("this is not the name of a site that describes the modules and providers of an upstream")
	errUnknownPath = NotFound("this is not a path of a registry protocol")
)

// Covers reports whether a path, without escapes, belongs to a protocol. [Upstreams.Parse] reads such a path, or says what is
// wrong with it.
func Covers(path string) bool { return grammarOf(path) != nil }

// Parse reads an escaped path of a request that was sent to requestHost, the Host header. Every error is an [Error].
//
// Without a registry in the path of a module, requestHost counts if it is the name of an upstream; otherwise the namespace
// decides. The path of a provider must name its registry, or requestHost be the registry's name.
func (u *Upstreams) Parse(requestHost, path string) (Request, error) {
	plain := path
	if strings.Contains(path, "%") {
		var err error
		if plain, err = url.PathUnescape(path); err != nil {
			return Request{}, errEscape
		}
	}
	parse := grammarOf(plain)
	if parse == nil {
		return Request{}, errUnknownPath
	}
	return parse(u, requestHost, path)
}

// grammarOf returns the parser of the protocol that a path belongs to, or nil.
func grammarOf(path string) func(u *Upstreams, requestHost, path string) (Request, error) {
	switch {
	case strings.Contains(path, "/"+ModulesPath), strings.HasSuffix(path, "/v1/modules"):
		return (*Upstreams).parseModule
	case strings.Contains(path, "/"+moduleHistoryPath):
		return (*Upstreams).parseHistory
	case strings.Contains(path, "/"+providerHistoryPath), strings.Contains(path, "/"+providerVersionPath),
		strings.Contains(path, "/"+providerDocumentsPath), strings.HasSuffix(path, "/v2/provider-docs"):
		return (*Upstreams).parseBesideProviders
	case strings.HasPrefix(path, docsPath):
		return (*Upstreams).parseDocs
	case strings.HasPrefix(path, providerDocsPath):
		return (*Upstreams).parseProviderDocs
	case strings.Contains(path, "/"+ProvidersPath):
		return (*Upstreams).parseProvider
	case strings.HasPrefix(path, mirrorPath):
		return (*Upstreams).parseMirror
	}
	return nil
}

// IsAboutProviders reports whether a path belongs to a protocol that clients install providers by.
func IsAboutProviders(path string) bool {
	return strings.Contains(path, "/"+ProvidersPath) || IsMirror(path)
}

// IsMirror reports whether a path belongs to the provider network mirror protocol.
func IsMirror(path string) bool { return strings.HasPrefix(path, mirrorPath) }

// NamedHost returns the registry that a path of modules, or of the API of a registry beside them, names before the rest: as it
// is written, and empty if the path does not name one. ok is false for other paths: clients print no text of answers about
// providers.
func NamedHost(path string) (written string, ok bool) {
	for _, protocol := range []string{ModulesPath, moduleHistoryPath, providerHistoryPath, providerVersionPath, providerDocumentsPath} {
		if before, _, ok := strings.Cut(path+"/", "/"+protocol); ok {
			return strings.TrimPrefix(before, "/"), true
		}
	}
	return "", strings.HasPrefix(path, docsPath) || strings.HasPrefix(path, providerDocsPath)
}

// unescaped returns the segments of an escaped path.
func unescaped(path string) (parts []string, err error) {
	parts = strings.Split(path, "/")
	for i, part := range parts {
		if parts[i], err = url.PathUnescape(part); err != nil {
			return nil, errEscape
		}
	}
	return parts, nil
}

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

// parseProvider reads the paths of providers.v1, of the registry's own API beside it, and of files.
func (u *Upstreams) parseProvider(requestHost, path string) (Request, error) {
	before, rest, _ := strings.Cut(path, "/"+ProvidersPath)
	host, err := u.ofProvider(requestHost, before, http.StatusConflict)
	if err != nil {
		return Request{}, err
	}
	parts, err := unescaped(rest)
	if err != nil {
		return Request{}, err
	}
	var q Request
	var platform string
	switch {
	case len(parts) == 3 && parts[2] == "versions":
		q.Kind = KindProviderVersions
	case len(parts) == 2, len(parts) == 3:
		q.Kind = KindDetails
	case len(parts) == 6 && parts[3] == "download":
		q.Kind, platform = KindProviderDownload, parts[4]+"_"+parts[5]
	case len(parts) == 4 && parts[3] == fileSums:
		q.Kind = KindProviderSums
	case len(parts) == 4 && parts[3] == fileSignature:
		q.Kind = KindProviderSignature
	case len(parts) == 5 && strings.HasSuffix(parts[4], ".zip"):
		q.Kind, platform = KindProviderPackage, parts[3]
	default:
		return Request{}, NotFound("want {namespace}/{type}/versions or {namespace}/{type}/{version}/download/{os}/{arch}")
	}
	if q.Address, err = provider(host, parts[0], parts[1]); err != nil {
		return Request{}, err
	}
	if len(parts) > 2 && q.Kind != KindProviderVersions && (q.Kind != KindDetails || parts[2] != "latest") {
		if q.Ref, err = providerVersion(q.Address, parts[2], platform); err != nil {
			return Request{}, err
		}
	}
	if plain, err := url.PathUnescape(path); q.IsFile() && (err != nil || plain != q.Path()) {
		return Request{}, NotFound("the path of a file of a provider is the one that …/download/{os}/{arch} names")
	}
	return q, nil
}

// parseMirror reads the paths of the provider network mirror protocol.
func (u *Upstreams) parseMirror(_, path string) (Request, error) {
	host, rest, _ := strings.Cut(strings.TrimPrefix(path, mirrorPath), "/")
	parts, err := unescaped(rest)
	if err != nil {
		return Request{}, err
	}
	if len(parts) != 3 || !strings.HasSuffix(parts[2], ".json") {
		return Request{}, NotFound("want " + mirrorPath + "{registry host}/{namespace}/{type}/index.json or …/{version}.json")
	}
	if host, err = u.ofProviders(host, http.StatusNotFound); err != nil {
		return Request{}, err // after a 404, clients use the next of their installation methods
	}
	m, err := provider(host, parts[0], parts[1])
	if err != nil || parts[2] == docsIndex {
		return Request{Kind: KindMirrorIndex, Ref: m.At("")}, err
	}
	v, err := providerVersion(m, strings.TrimSuffix(parts[2], ".json"), "")
	return Request{Kind: KindMirrorVersion, Ref: v}, err
}

// parseBesideProviders reads the paths below v2/ about providers.
func (u *Upstreams) parseBesideProviders(requestHost, path string) (q Request, err error) {
	before, rest, _ := strings.Cut(path, "/v2/")
	if q.Host, err = u.ofProvider(requestHost, before, http.StatusForbidden); err != nil {
		return Request{}, err
	}
	parts, err := unescaped(rest)
	if err != nil {
		return Request{}, err
	}
	if parts[0] == "provider-versions" && len(parts) == 2 {
		parts = append(parts[:1], strings.Split(parts[1], "/")...) // some tools escape an id as a whole
	}
	switch n := len(parts); {
	case parts[0] == "providers" && n == 3:
		q.Kind = KindHistory
		q.Address, err = provider(q.Host, parts[1], parts[2])
	case parts[0] == "provider-versions" && n == 4:
		q.Kind = KindProviderVersion
		if q.Address, err = provider(q.Host, parts[1], parts[2]); err == nil {
			q.Ref, err = providerVersion(q.Address, parts[3], "")
		}
	case parts[0] == "provider-docs" && n == 1:
		q.Kind = KindProviderDocuments
	case parts[0] == "provider-docs" && n == 2 && parts[1] != "":
		q.Kind, q.ID = KindProviderDocument, parts[1]
	default:
		err = NotFound("want v2/providers/{namespace}/{type}, v2/provider-versions/{namespace}/{type}/{version} or v2/provider-docs/{id}")
	}
	return q, err
}

// parseProviderDocs reads the paths of registry-ui of OpenTofu about providers. They are sent to the host of [Upstreams.Docs].
func (u *Upstreams) parseProviderDocs(requestHost, path string) (q Request, err error) {
	if q.Host = u.ByDocs(requestHost); q.Host == "" {
		return q, errNoDocs
	}
	parts, err := unescaped(strings.TrimPrefix(path, providerDocsPath))
	if err != nil {
		return q, err
	}
	n := len(parts)
	name, isText := strings.CutSuffix(parts[n-1], ".md")
	switch {
	case (n == 3 || n == 4) && parts[n-1] == docsIndex:
		q.Kind = KindDocs
	case (n == 4 || n == 5) && isText:
		q.Kind = KindProviderDocument
		q.ID = strings.Join(append(parts[3:n-1:n-1], name), "/")
	default:
		return q, NotFound("want " + providerDocsPath + "{namespace}/{type}/index.json, …/v{version}/index.json or …/v{version}/{kind}/{name}.md")
	}
	if q.Address, err = provider(q.Host, parts[0], parts[1]); err == nil && n > 3 {
		q.Ref, err = providerVersion(q.Address, parts[2], "")
	}
	return q, err
}

// provider returns the provider that a path names.
func provider(host, namespace, typ string) (modproxy.Address, error) {
	m := modproxy.NewProvider(host, namespace, typ)
	if namespace == "-" || host == "terraform.io" && m.Namespace == "builtin" {
		return m, NotFound("no registry has providers of this namespace") // clients look in it for providers without a namespace
	}
	if err := m.CheckProvider(); err != nil {
		return m, Invalid(err)
	}
	return m, nil
}

// providerVersion returns the version of m that a path names, for a platform if that is not empty.
func providerVersion(m modproxy.Address, version, platform string) (modproxy.Ref, error) {
	version, err := modproxy.CanonicalVersion(version)
	if err != nil {
		return modproxy.Ref{}, Invalid(err)
	}
	v := m.At(version)
	if !v.IsListed() {
		return v, NotFound(v.Base().String() + ": this version is one of modproxy, which no registry has")
	}
	if platform == "" {
		return v, nil
	}
	p, err := modproxy.ParsePlatform(platform)
	if err != nil {
		return v, Invalid(err)
	}
	return v.ForPlatform(p), nil
}
