package protocol

// Access is the credential that a request needs where clients show tokens, in words.
type Access string

// Credentials. A token in the sense of these is one of modproxy, or of an issuer that modproxy accepts.
const (
	AccessNone     Access = "none"
	AccessClient   Access = "any valid token"
	AccessReader   Access = "a token with a scope for it"
	AccessFile     Access = "the signed path that the client received, or a token with a scope for it"
	AccessOperator Access = "an admin token"
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
	// Access is the credential that a request needs where clients show tokens.
	Access Access
}

// A Protocol is a group of endpoints.
type Protocol struct {
	// Name names the protocol, in Markdown, with a link to its specification.
	Name      string
	Endpoints []Endpoint
}

// Endpoints returns the endpoints that [Upstreams.Parse] reads, with service discovery, in the order of the reference.
func Endpoints() []Protocol {
	get := func(kind Kind, path, about string, access Access) Endpoint {
		return Endpoint{kind, "GET", path, about, access}
	}
	const (
		module   = "{namespace}/{name}/{system}"
		provider = "{namespace}/{type}"
	)
	return []Protocol{
		{"[Service discovery](https://opentofu.org/docs/internals/remote-service-discovery/)", []Endpoint{
			get("discovery", "[/{host}]"+DiscoveryPath, "names the paths of the services, for the registry in the path or in the Host header", AccessNone),
		}},
		{"[Module registry protocol](https://opentofu.org/docs/internals/module-registry-protocol/)", []Endpoint{
			get(KindVersions, "[/{host}]/"+ModulesPath+module+"/versions", "lists the versions of a module", AccessReader),
			get(KindDownload, "[/{host}]/"+ModulesPath+module+"[/{version}]/download", "says where the package of a version is, or of the latest version", AccessReader),
			get(KindPackage, "/{host}~{port}/"+ModulesPath+module+"/{version}/{name}-{system}-{version}.tar.gz",
				"sends the package of a version; the port is empty for a registry without a port", AccessFile),
		}},
		{"[Provider registry protocol](https://opentofu.org/docs/internals/provider-registry-protocol/)", []Endpoint{
			get(KindProviderVersions, "[/{host}]/"+ProvidersPath+provider+"/versions", "lists the versions of a provider with their platforms", AccessReader),
			get(KindProviderDownload, "[/{host}]/"+ProvidersPath+provider+"/{version}/download/{os}/{arch}",
				"says where the package for a platform is, its checksum, and who signed it", AccessReader),
			get(KindProviderPackage, "/{host}/"+ProvidersPath+provider+"/{version}/{os}_{arch}/terraform-provider-{type}_{version}_{os}_{arch}.zip",
				"sends the package for a platform", AccessFile),
			get(KindProviderSums, "/{host}/"+ProvidersPath+provider+"/{version}/"+fileSums, "sends the checksums of a version", AccessFile),
			get(KindProviderSignature, "/{host}/"+ProvidersPath+provider+"/{version}/"+fileSignature, "sends the signature of the checksums", AccessFile),
		}},
		{"[Provider network mirror protocol](https://opentofu.org/docs/internals/provider-network-mirror-protocol/)", []Endpoint{
			get(KindMirrorIndex, mirrorPath+"{host}/"+provider+"/index.json", "lists the versions of a provider", AccessReader),
			get(KindMirrorVersion, mirrorPath+"{host}/"+provider+"/{version}.json", "lists the packages of a version with their hashes", AccessReader),
		}},
		{"[API of the public registry](https://developer.hashicorp.com/terraform/registry/api-docs)", []Endpoint{
			get(KindDetails, "[/{host}]/"+ModulesPath+module+"[/{version}]",
				"one version in full, or the latest: inputs, outputs, resources, providers, calls, submodules, examples, README", AccessReader),
			get(KindHistory, "[/{host}]/"+moduleHistoryPath+module, "all versions with their dates (`include=module-versions`)", AccessReader),
			get(KindDownloads, "[/{host}]/"+ModulesPath+module+"/downloads/summary", "how often it was downloaded", AccessReader),
			get(KindList, "[/{host}]/v1/modules[/{namespace}[/{name}]]",
				"lists modules, with `offset`, `limit` (at most 100), `provider`, `namespace` and `verified`", AccessReader),
			get(KindSearch, "[/{host}]/v1/modules/search", "lists modules with all words of `q`, with the same parameters", AccessReader),
			get(KindDetails, "[/{host}]/"+ProvidersPath+provider+"[/{version}]", "one version of a provider, or the latest, with the list of its documents", AccessReader),
			get(KindHistory, "[/{host}]/"+providerHistoryPath+provider, "all versions of a provider with their dates (`include=provider-versions`)", AccessReader),
			get(KindProviderVersion, "[/{host}]/"+providerVersionPath+provider+"/{version}",
				"one version of a provider with its documents (`include=provider-docs`)", AccessReader),
			get(KindProviderDocuments, "[/{host}]/v2/provider-docs",
				"documents of the version `filter[provider-version]={namespace}/{type}/{version}` in pages, with `filter[category]`, `filter[slug]`, "+
					"`filter[subcategory]`, `filter[language]`, `page[number]` and `page[size]` (at most 100)", AccessReader),
			get(KindProviderDocument, "[/{host}]/"+providerDocumentsPath+"{id}", "one document with its text", AccessReader),
		}},
		{"API of `api.opentofu.org`, under the name that `upstreams[].docs` has", []Endpoint{
			get(KindDocs, docsPath+module+"[/v{version}]/index.json", "one version of a module in full, or all versions", AccessReader),
			get(KindDocs, providerDocsPath+provider+"[/v{version}]/index.json", "one version of a provider with its documents, or all versions", AccessReader),
			get(KindProviderDocument, providerDocsPath+provider+"/v{version}/[{kind}/]{document}.md", "the text of one document", AccessReader),
		}},
	}
}
