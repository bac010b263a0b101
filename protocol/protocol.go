// Package protocol reads and makes the paths and queries of every registry protocol.
//
//	q, err := upstreams.Parse(r.Host, r.URL.EscapedPath())
//	path := protocol.Request{Kind: protocol.KindPackage, Ref: v}.Path()
//
// Invariants: [Upstreams.Parse] accepts an address, a version or a platform only if the clients' own grammar does, and only for
// a registry that the operator allows. It reads the result of [Request.Path] as the same Request. A file has one path: a
// package, the checksums of a provider's version, and their signature are at the result of Path and nowhere else. The path of a
// module's package ends in .tar.gz and has neither query nor glob: every client accepts this form. In the path of a module's
// package, a ~ follows the hostname of the registry, because some tools take a hostname before / or : for a repository.
//
// [Endpoints] lists the paths. The specifications are https://opentofu.org/docs/internals/module-registry-protocol/,
// https://opentofu.org/docs/internals/provider-registry-protocol/ and
// https://opentofu.org/docs/internals/provider-network-mirror-protocol/, the API of the public registry
// (https://developer.hashicorp.com/terraform/registry/api-docs), and registry-ui of OpenTofu.
package protocol

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy"
)

// Paths below a registry. Each ends with a slash and has none at its beginning.
const (
	ModulesPath   = "v1/modules/"
	ProvidersPath = "v1/providers/"

	moduleHistoryPath     = "v2/modules/"
	providerHistoryPath   = "v2/providers/"
	providerVersionPath   = "v2/provider-versions/"
	providerDocumentsPath = "v2/provider-docs/"
)

// Paths from the root.
const (
	// DiscoveryPath is the path of the service discovery document.
	DiscoveryPath = "/.well-known/terraform.json"

	mirrorPath       = "/-/mirror/"
	docsPath         = "/registry/docs/modules/"
	providerDocsPath = "/registry/docs/providers/"
)

// BasePaths returns the paths of a registry below which the protocols are, each with a slash at its beginning and its end.
func BasePaths() []string {
	var all []string
	for _, path := range basePaths {
		all = append(all, "/"+path)
	}
	return all
}

// basePaths are the paths below a registry.
var basePaths = []string{
	ModulesPath, ProvidersPath, moduleHistoryPath, providerHistoryPath, providerVersionPath, providerDocumentsPath,
}

const (
	fileSums      = "SHA256SUMS"
	fileSignature = "SHA256SUMS.sig"
	docsIndex     = "index.json"
)

// A Kind is the question of a [Request], by its name in the log and the metrics.
type Kind string

// Questions about modules.
const (
	KindVersions  Kind = "versions"
	KindDownload  Kind = "download" // the location of the package of Version; of the latest version, if Version is empty
	KindPackage   Kind = "package"
	KindDownloads Kind = "downloads" // how often the module was downloaded
	KindList      Kind = "list"      // modules; see [Request.ListQuery]
	KindSearch    Kind = "search"    // the same, by words
)

// Questions about modules and providers.
const (
	KindDetails Kind = "details" // Version in full; the latest version, if Version is empty
	KindHistory Kind = "history" // all versions with their dates
	KindDocs    Kind = "docs"    // Version in full, as OpenTofu's registry describes it; all versions, if Version is empty
)

// Questions about providers. The variant of a download and of a package is the platform, see [modproxy.Ref.ForPlatform].
const (
	KindMirrorIndex       Kind = "mirror_index"
	KindMirrorVersion     Kind = "mirror_version"
	KindProviderVersions  Kind = "provider_versions"
	KindProviderSums      Kind = "provider_sums"
	KindProviderSignature Kind = "provider_signature"
	KindProviderDownload  Kind = "provider_download"
	KindProviderPackage   Kind = "provider_package"
	KindProviderVersion   Kind = "provider_version"   // Version with its documents
	KindProviderDocuments Kind = "provider_documents" // pages of documents; see [ParseSelection]
	KindProviderDocument  Kind = "provider_document"  // the document ID, of Version if that is not empty
)

// A Request is a question of one of the protocols, with its registry. Requests are comparable.
type Request struct {
	Kind Kind
	// Ref is the subject. Lists have at most a host, a namespace and a name. Documents have a host only, unless they are
	// of a version. The version is empty if the question is not about one, and for the latest version.
	modproxy.Ref
	// ByNamespace is set if neither the path nor the Host header names the registry: the namespace does.
	ByNamespace bool
	// ID names a document. It is unchecked text of the client.
	ID string
}

// IsList reports whether q is for a list of modules. Such a request has no complete address.
func (q Request) IsList() bool { return q.Kind == KindList || q.Kind == KindSearch }

// IsOfDocuments reports whether q is for documents of any provider. Such a request has a host only.
func (q Request) IsOfDocuments() bool {
	return q.Kind == KindProviderDocuments || q.Kind == KindProviderDocument && q.Version == ""
}

// IsPackage reports whether q is for a package. Clients wait for packages without a timeout.
func (q Request) IsPackage() bool { return q.Kind == KindPackage || q.Kind == KindProviderPackage }

// IsFile reports whether q is for a file. Clients request files without a credential, by a path that was signed for them.
func (q Request) IsFile() bool {
	return q.IsPackage() || q.Kind == KindProviderSums || q.Kind == KindProviderSignature
}

// IsDescription reports whether q is a question for a [modproxy.Catalog], and not for a [modproxy.Registry].
func (q Request) IsDescription() bool {
	switch q.Kind {
	case KindDetails, KindDocs, KindDownloads, KindHistory, KindList, KindSearch,
		KindProviderVersion, KindProviderDocuments, KindProviderDocument:
		return true
	case KindVersions, KindDownload, KindPackage, KindProviderVersions, KindProviderDownload, KindProviderPackage, KindProviderSums,
		KindProviderSignature, KindMirrorIndex, KindMirrorVersion:
	}
	return false
}

// Path returns the path of q from the root, escaped for a URL: the path of [Endpoints] below the host, or without a host the
// path under the registry's own name. The address must be valid and the version canonical. The paths of files are
//
//	/{host}~{port}/v1/modules/{namespace}/{name}/{system}/{version}/{name}-{system}-{version}.tar.gz
//	/{host}/v1/providers/{namespace}/{type}/{version}/SHA256SUMS
//	/{host}/v1/providers/{namespace}/{type}/{version}/SHA256SUMS.sig
//	/{host}/v1/providers/{namespace}/{type}/{version}/{platform}/terraform-provider-{type}_{version}_{platform}.zip
//
// The port of a module's package is empty for a host without a port. No character of the path of a file needs an escape.
func (q Request) Path() string {
	switch q.Kind {
	case KindPackage:
		return packagePath(q.Ref)
	case KindMirrorIndex, KindMirrorVersion:
		file := docsIndex
		if q.Kind == KindMirrorVersion {
			file = q.Version + ".json"
		}
		return mirrorPath + q.Host + "/" + q.WithoutHost() + "/" + file
	case KindDocs:
		return q.docsPath() + docsIndex
	case KindProviderDocument:
		if q.Version != "" {
			kind, name, found := strings.Cut(q.ID, "/")
			if !found {
				return q.docsPath() + url.PathEscape(kind) + ".md"
			}
			return q.docsPath() + url.PathEscape(kind) + "/" + url.PathEscape(name) + ".md"
		}
	default:
	}
	base := ""
	if q.Host != "" {
		base = "/" + q.Host
	}
	return base + "/" + q.below()
}

// pathPrefixes are the beginnings of the paths of questions that modules and providers have in common.
type pathPrefixes struct{ details, history, docs string }

// prefixes returns the beginnings of the paths for the kind of q's address.
func (q Request) prefixes() (p pathPrefixes) {
	switch q.Address.Kind() {
	case modproxy.Module:
		p = pathPrefixes{ModulesPath, moduleHistoryPath, docsPath}
	case modproxy.Provider:
		p = pathPrefixes{ProvidersPath, providerHistoryPath, providerDocsPath}
	}
	return p
}

// docsPath returns the path of the directory of the documents about q, with a slash at its end.
func (q Request) docsPath() string {
	path := q.prefixes().docs + q.WithoutHost() + "/"
	if q.Version != "" {
		path += "v" + q.FullVersion() + "/"
	}
	return path
}

// below returns the path of q below its registry.
func (q Request) below() string {
	version := ""
	switch {
	case q.Version == "":
	case q.IsArchive():
		version = "/" + q.Version // the platform stands elsewhere
	default:
		version = "/" + q.FullVersion()
	}
	switch q.Kind {
	case KindVersions:
		return ModulesPath + q.WithoutHost() + "/versions"
	case KindDownload:
		return ModulesPath + q.WithoutHost() + version + "/download"
	case KindDownloads:
		return ModulesPath + q.WithoutHost() + "/downloads/summary"
	case KindList:
		return strings.TrimRight(ModulesPath+q.WithoutHost(), "/")
	case KindSearch:
		return ModulesPath + "search"
	case KindHistory:
		return q.prefixes().history + q.WithoutHost()
	case KindProviderVersions:
		return ProvidersPath + q.WithoutHost() + "/versions"
	case KindProviderDownload:
		platform, _ := q.Platform()
		return ProvidersPath + q.WithoutHost() + version + "/download/" + platform.OS + "/" + platform.Arch
	case KindProviderSums:
		return ProvidersPath + q.WithoutHost() + version + "/" + fileSums
	case KindProviderSignature:
		return ProvidersPath + q.WithoutHost() + version + "/" + fileSignature
	case KindProviderPackage:
		platform, _ := q.Platform()
		return ProvidersPath + q.WithoutHost() + version + "/" + platform.String() +
			"/terraform-provider-" + q.Name + "_" + q.Version + "_" + platform.String() + ".zip"
	case KindProviderVersion:
		return providerVersionPath + q.WithoutHost() + version
	case KindProviderDocuments:
		return strings.TrimSuffix(providerDocumentsPath, "/")
	case KindProviderDocument:
		return providerDocumentsPath + url.PathEscape(q.ID)
	default: // details
		return q.prefixes().details + q.WithoutHost() + version
	}
}

// An Error is a fault of the request itself, with the HTTP status of the answer.
type Error struct {
	Status int
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the fault without the status.
func (e *Error) Unwrap() error { return e.Err }

// WithStatus returns err as an [Error].
func WithStatus(status int, err error) error { return &Error{status, err} }

// Invalid returns err as an [Error] with status 400.
func Invalid(err error) error { return WithStatus(http.StatusBadRequest, err) }

// NotFound returns an [Error] with that text and status 404.
func NotFound(text string) error { return WithStatus(http.StatusNotFound, errors.New(text)) }
