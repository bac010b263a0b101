package protocol

// Access is the credential that a request needs if the proxy requires tokens, in words.
type Access string

// Credentials. A token in the sense of these is one of modproxy, or of an issuer that modproxy accepts.
const (
	AccessNone     Access = "none"
	AccessClient   Access = "any valid token"
	AccessReader   Access = "a token with a scope for the address"
	AccessFile     Access = "the signed path that the client received, or a token with a scope for the address"
	AccessOperator Access = "an admin token"
	AccessOwner    Access = "the socket in the data directory"
	AccessRefresh  Access = "an admin token, or one that may refresh modules"
)

// An Endpoint is what is answered at one path, for the reference of the HTTP interface.
type Endpoint struct {
	// Kind is the name of the question in the log and the metrics.
	Kind Kind
	// Method is the HTTP method. GET includes HEAD.
	Method string
	// Path has a name in braces for each part that changes, and brackets around each part that may be missing.
	Path string
	// About is one sentence, in Markdown.
	About string
	// Access is the credential that a request needs if the proxy requires tokens.
	Access Access
}

// A Protocol is a group of endpoints.
type Protocol struct {
	// Name is the heading of the group in the reference.
	Name      string
	Endpoints []Endpoint
}

// Endpoints returns the paths that [Upstreams.Parse] reads, and those of service discovery, in the order of the reference
// (docs/reference/http.md).
func Endpoints() []Protocol {
	get := func(kind Kind, path, about string, access Access) Endpoint {
		return Endpoint{kind, "GET", path, about, access}
	}
	const (
		module   = "{namespace}/{name}/{system}"
		provider = "{namespace}/{type}"
	)
	return []Protocol{
		{"Service discovery", []Endpoint{
			get("discovery", DiscoveryPath, "names the services of the registry whose name the `Host` header has, or of this proxy", AccessNone),
			get("discovery", "/{host}"+DiscoveryPath, "names the services of a registry, as URLs", AccessClient),
		}},
		{"Module registry protocol", []Endpoint{
			get(KindVersions, "[/{host}]/"+ModulesPath+module+"/versions", "lists the versions of a module", AccessReader),
			get(KindDownload, "[/{host}]/"+ModulesPath+module+"[/{version}]/download", "returns the location of the package of a version, or of the latest version", AccessReader),
			get(KindPackage, "/{host}~{port}/"+ModulesPath+module+"/{version}/{name}-{system}-{version}.tar.gz",
				"returns the package of a version; `port` is empty for a registry without a port", AccessFile),
		}},
		{"Provider registry protocol", []Endpoint{
			get(KindProviderVersions, "[/{host}]/"+ProvidersPath+provider+"/versions", "lists the versions of a provider with their platforms", AccessReader),
			get(KindProviderDownload, "[/{host}]/"+ProvidersPath+provider+"/{version}/download/{os}/{arch}",
				"returns the URL of the package for a platform, its checksum and the signing keys", AccessReader),
			get(KindProviderPackage, "/{host}/"+ProvidersPath+provider+"/{version}/{os}_{arch}/terraform-provider-{type}_{version}_{os}_{arch}.zip",
				"returns the package for a platform", AccessFile),
			get(KindProviderSums, "/{host}/"+ProvidersPath+provider+"/{version}/"+fileSums, "returns the checksums of a version", AccessFile),
			get(KindProviderSignature, "/{host}/"+ProvidersPath+provider+"/{version}/"+fileSignature, "returns the signature of the checksums", AccessFile),
		}},
		{"Provider network mirror protocol", []Endpoint{
			get(KindMirrorIndex, mirrorPath+"{host}/"+provider+"/index.json", "lists the versions of a provider", AccessReader),
			get(KindMirrorVersion, mirrorPath+"{host}/"+provider+"/{version}.json", "lists the packages of a version with their hashes", AccessReader),
		}},
		{"API of the public registry", []Endpoint{
			get(KindDetails, "[/{host}]/"+ModulesPath+module+"[/{version}]",
				"describes a version, or the latest: inputs, outputs, resources, providers, calls, submodules, examples, README", AccessReader),
			get(KindHistory, "[/{host}]/"+moduleHistoryPath+module, "lists all versions with their dates (`include=module-versions`)", AccessReader),
			get(KindDownloads, "[/{host}]/"+ModulesPath+module+"/downloads/summary", "returns how often the module was downloaded", AccessReader),
			get(KindList, "[/{host}]/v1/modules[/{namespace}[/{name}]]",
				"lists modules, with `offset`, `limit` (at most 100), `provider`, `namespace` and `verified`", AccessReader),
			get(KindSearch, "[/{host}]/v1/modules/search", "lists modules with all words of `q`, with the same parameters", AccessReader),
			get(KindDetails, "[/{host}]/"+ProvidersPath+provider+"[/{version}]", "describes a version of a provider, or the latest, with the list of its documents", AccessReader),
			get(KindHistory, "[/{host}]/"+providerHistoryPath+provider, "lists all versions of a provider with their dates (`include=provider-versions`)", AccessReader),
			get(KindProviderVersion, "[/{host}]/"+providerVersionPath+provider+"/{version}",
				"describes a version of a provider with its documents (`include=provider-docs`)", AccessReader),
			get(KindProviderDocuments, "[/{host}]/v2/provider-docs",
				"lists documents of the version `filter[provider-version]={namespace}/{type}/{version}` in pages, with `filter[category]`, `filter[slug]`, "+
					"`filter[subcategory]`, `filter[language]`, `page[number]` and `page[size]` (at most 100)", AccessReader),
			get(KindProviderDocument, "[/{host}]/"+providerDocumentsPath+"{id}", "returns a document with its text", AccessReader),
		}},
		{"API of OpenTofu's registry", []Endpoint{
			get(KindDocs, docsPath+module+"[/v{version}]/index.json", "describes a version of a module, or lists all versions", AccessReader),
			get(KindDocs, providerDocsPath+provider+"[/v{version}]/index.json", "describes a version of a provider with its documents, or lists all versions", AccessReader),
			get(KindProviderDocument, providerDocsPath+provider+"/v{version}/[{kind}/]{document}.md", "returns the text of a document", AccessReader),
		}},
	}
}
