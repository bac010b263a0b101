package proxy

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/rewrite"
)

// Questions about providers. The version of a request of the last two is one [modproxy.Ref.OfPlatform].
const (
	kindMirrorIndex       kind = "mirror_index"
	kindMirrorVersion     kind = "mirror_version"
	kindProviderVersions  kind = "provider_versions"
	kindProviderSums      kind = "provider_sums"
	kindProviderSignature kind = "provider_signature"
	kindProviderDownload  kind = "provider_download"
	kindProviderPackage   kind = "provider_package"
)

const (
	providersPath = "v1/providers/"
	mirrorPath    = "/-/mirror/"

	fileSums      = "SHA256SUMS"
	fileSignature = "SHA256SUMS.sig"
)

// isFile reports whether q is for what clients ask for without a credential: its path is signed for them.
func (q request) isFile() bool {
	return q.isPackage() || q.kind == kindProviderSums || q.kind == kindProviderSignature
}

// isPackage reports whether q is for a package, for which clients wait any time.
func (q request) isPackage() bool { return q.kind == kindPackage || q.kind == kindProviderPackage }

// path returns the one path of a file, from the root:
//
//	/{host}/v1/providers/{namespace}/{type}/{version}/SHA256SUMS
//	/{host}/v1/providers/{namespace}/{type}/{version}/SHA256SUMS.sig
//	/{host}/v1/providers/{namespace}/{type}/{version}/{platform}/terraform-provider-{type}_{version}_{platform}.zip
//
// That of a module's package is [rewrite.PackagePath]. No character in it needs an escape.
func (q request) path() string {
	if q.kind == kindPackage {
		return rewrite.PackagePath(q.Ref)
	}
	below := "/" + q.Host + "/" + providersPath + q.Namespace + "/" + q.Name + "/" + q.Version + "/"
	switch q.kind {
	case kindProviderSums:
		return below + fileSums
	case kindProviderSignature:
		return below + fileSignature
	default:
	}
	platform, _ := q.Platform()
	return below + platform.String() + "/terraform-provider-" + q.Name + "_" + q.Version + "_" + platform.String() + ".zip"
}

// parseProvider reads an escaped path of the providers.v1 protocol, sent to requestHost:
//
//	[/{host}]/v1/providers/{namespace}/{type}/versions
//	[/{host}]/v1/providers/{namespace}/{type}/{version}/download/{os}/{arch}
//
// of the registry's own API:
//
//	[/{host}]/v1/providers/{namespace}/{type}[/{version}]
//
// and those of files, which [request.path] returns.
func (u *Upstreams) parseProvider(requestHost, path string) (request, error) {
	before, rest, _ := strings.Cut(path, "/"+providersPath)
	host, err := u.ofProvider(requestHost, before, http.StatusConflict)
	if err != nil {
		return request{}, err
	}
	parts, err := unescaped(rest)
	if err != nil {
		return request{}, err
	}
	var q request
	var platform string
	switch {
	case len(parts) == 3 && parts[2] == "versions":
		q.kind = kindProviderVersions
	case len(parts) == 2, len(parts) == 3:
		q.kind = kindDetails
	case len(parts) == 6 && parts[3] == "download":
		q.kind, platform = kindProviderDownload, parts[4]+"_"+parts[5]
	case len(parts) == 4 && parts[3] == fileSums:
		q.kind = kindProviderSums
	case len(parts) == 4 && parts[3] == fileSignature:
		q.kind = kindProviderSignature
	case len(parts) == 5 && strings.HasSuffix(parts[4], ".zip"):
		q.kind, platform = kindProviderPackage, parts[3]
	default:
		return request{}, notFound("want {namespace}/{type}/versions or {namespace}/{type}/{version}/download/{os}/{arch}")
	}
	if q.Address, err = provider(host, parts[0], parts[1]); err != nil {
		return request{}, err
	}
	if len(parts) > 2 && q.kind != kindProviderVersions && (q.kind != kindDetails || parts[2] != "latest") {
		if q.Ref, err = providerVersion(q.Address, parts[2], platform); err != nil {
			return request{}, err
		}
	}
	if plain, err := url.PathUnescape(path); q.isFile() && (err != nil || plain != q.path()) {
		return request{}, notFound("the path of a file of a provider is the one that …/download/{os}/{arch} names")
	}
	return q, nil
}

// parseMirror reads an escaped path of the provider network mirror protocol
// (https://developer.hashicorp.com/terraform/internals/provider-network-mirror-protocol):
//
//	/-/mirror/{host}/{namespace}/{type}/index.json
//	/-/mirror/{host}/{namespace}/{type}/{version}.json
func (u *Upstreams) parseMirror(_, path string) (request, error) {
	host, rest, _ := strings.Cut(strings.TrimPrefix(path, mirrorPath), "/")
	parts, err := unescaped(rest)
	if err != nil {
		return request{}, err
	}
	if len(parts) != 3 || !strings.HasSuffix(parts[2], ".json") {
		return request{}, notFound("want " + mirrorPath + "{registry host}/{namespace}/{type}/index.json or …/{version}.json")
	}
	if host, err = u.ofProviders(host, http.StatusNotFound); err != nil {
		return request{}, err // clients then ask as they are told to for what the mirror does not have
	}
	m, err := provider(host, parts[0], parts[1])
	if err != nil || parts[2] == "index.json" {
		return request{kind: kindMirrorIndex, Ref: m.At("")}, err
	}
	v, err := providerVersion(m, strings.TrimSuffix(parts[2], ".json"), "")
	return request{kind: kindMirrorVersion, Ref: v}, err
}

// ofProvider returns the upstream for a request to requestHost for a provider: the one that the path names before it, if any.
// Without one requestHost must be an upstream's: a provider whose address has the proxy's own hostname is another one. The
// status is for another registry than an upstream.
func (u *Upstreams) ofProvider(requestHost, before string, foreign int) (string, error) {
	if before != "" {
		return u.ofProviders(strings.TrimPrefix(before, "/"), foreign)
	}
	host := u.byName(requestHost)
	if host == "" {
		return "", notFound("want /{registry host}/v1/providers/…: no provider has this proxy's own hostname")
	}
	return host, nil
}

// ofProviders is named, with the status of an answer about another registry: of 403 clients say that they need credentials.
func (u *Upstreams) ofProviders(escaped string, foreign int) (string, error) {
	host, err := u.named(escaped)
	if err != nil && host != "" {
		err = &requestError{foreign, err}
	}
	return host, err
}

// unescaped returns the parts of an escaped path.
func unescaped(path string) (parts []string, err error) {
	parts = strings.Split(path, "/")
	for i, part := range parts {
		if parts[i], err = url.PathUnescape(part); err != nil {
			return nil, errEscape
		}
	}
	return parts, nil
}

// provider returns the provider that a path names.
func provider(host, namespace, typ string) (modproxy.Address, error) {
	m := modproxy.NewProvider(host, namespace, typ)
	if namespace == "-" || host == "terraform.io" && m.Namespace == "builtin" {
		return m, notFound("no registry has providers of this namespace") // clients look in it for those without one
	}
	if err := m.CheckProvider(); err != nil {
		return m, invalid(err)
	}
	return m, nil
}

// providerVersion returns the version of m that a path names, or if that is not empty, the one for a platform.
func providerVersion(m modproxy.Address, version, platform string) (modproxy.Ref, error) {
	version, err := modproxy.CanonicalVersion(version)
	if err != nil {
		return modproxy.Ref{}, invalid(err)
	}
	v := m.At(version)
	if !v.IsListed() {
		return v, notFound("no registry has what modproxy makes of " + v.Base().String())
	}
	if platform == "" {
		return v, nil
	}
	p, err := modproxy.ParsePlatform(platform)
	if err != nil {
		return v, invalid(err)
	}
	return v.ForPlatform(p), nil
}
