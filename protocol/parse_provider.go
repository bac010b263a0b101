package protocol

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy"
)

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
