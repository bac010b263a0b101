package conformance

// Requirements of several rules, for clients that check them in different ways.
const (
	wantsShape    = "the answer has the members that the client reads, with the expected types"
	wantsVersions = "every version is valid by the rules of hashicorp/go-version"
	wantsDetails  = "a version is described, with the types that the client decodes"
)

// Files in which clients read answers.
const (
	svchost     = "vendored terraform-svchost disco/disco.go discover"
	tfClient    = "internal/registry/client.go "
	tfResponse  = "internal/registry/response/module_versions.go ModuleVersions"
	tgHelpers   = "internal/getter/tfrhelpers.go "
	reModule    = "lib/modules/datasource/terraform-module/"
	dbClient    = "terraform/lib/dependabot/terraform/registry_client.rb "
	lsModule    = "internal/registry/module.go "
	mcpTools    = "pkg/tools/registry/"
	upRegistry  = "pkg/plugins/resources/terraform/registry/"
	trRegistry  = "pkg/iac/scanners/terraform/parser/resolvers/registry.go "
	ckRegistry  = "checkov/terraform/module_loading/loaders/registry_loader.py "
	fuVersions  = "tfregistry/module_versions.go ListModuleVersions"
	icRegistry  = "internal/hcl/modules/registry.go "
	getterHTTP  = "go-getter get_http.go "
	getterUntar = "go-getter decompress_tar.go untar, decompress_zip.go"
)

// files are files of clients, by the names of the clients. Each names the function that has the requirement.
type files map[string]string

// byGetter returns the clients that download packages with go-getter.
func byGetter(file string) files {
	return files{terraform: file, opentofu: file, terragrunt: file, trivy: file, infracost: file}
}

func with(all files, name, file string) files {
	all[name] = file
	return all
}

// rules contains all rules, in the order in which clients meet them.
var rules = []rule{
	{"discovery.answer", "/.well-known/terraform.json is a JSON object with modules.v1, in time", files{
		terraform: svchost, opentofu: svchost, terragrunt: tgHelpers + "GetModuleRegistryURLBasePath", renovate: reModule + "base.ts",
		dependabot: dbClient + "services", updatecli: upRegistry + "registry.go discoverURL", checkov: ckRegistry + "_determine_tf_api_endpoints",
		infracost: svchost,
	}, answersDiscovery},
	{"discovery.type", "its Content-Type is application/json", files{terraform: svchost, opentofu: svchost, infracost: svchost}, saysJSON},
	{"discovery.size", "it has at most 1 MiB", files{terraform: svchost, opentofu: svchost, infracost: svchost}, smallDiscovery},
	{"discovery.base", "the client derives the right URL from modules.v1", files{
		terraform: tfClient + "Discover", opentofu: tfClient + "discoverBaseURL", terragrunt: tgHelpers + "BuildRequestURL",
		renovate: reModule + "utils.ts createSDBackendURL", dependabot: dbClient + "url_for", updatecli: upRegistry + "registry.go API",
		checkov: ckRegistry + "_determine_tf_api_endpoints", infracost: icRegistry + "ModuleLocation",
	}, findsBase},
	{"discovery.providers", "providers are available under the same name", files{
		terraform: "internal/getproviders/registry_source.go", opentofu: "internal/getproviders/registry_source.go",
	}, namesProviders},

	{"auth.token", "the client can send a token if the registry requires one", files{
		terraform: tfClient + "addRequestCreds", opentofu: tfClient + "addRequestCreds", terragrunt: tgHelpers + "applyHostToken",
		renovate: "lib/util/http/host-rules.ts", dependabot: dbClient + "headers_for", language: lsModule + "GetModuleVersions",
		assistant: "pkg/client/registry.go SendRegistryCall", updatecli: upRegistry + "versions.go", trivy: trRegistry + "Resolve",
		checkov: ckRegistry + "discover", tfupdate: "tfregistry/client.go newRequest", infracost: icRegistry + "fetchModuleVersions",
	}, showsToken},
	{"auth.stranger", "a request without a token is answered with 401", files{
		terraform: tfClient + "ModuleVersions", dependabot: dbClient + "http_get!",
	}, refusesStrangers},

	{"versions.answer", "the versions are answered with 200, in time", files{
		terraform: tfClient + "ModuleVersions", opentofu: tfClient + "ModulePackageVersions", terragrunt: tgHelpers + "listModuleVersions",
		renovate: reModule + "index.ts", dependabot: dbClient + "all_module_versions", language: lsModule + "GetModuleVersions",
		updatecli: upRegistry + "versions.go", trivy: trRegistry + "Resolve", checkov: ckRegistry + "_cache_available_versions",
		tfupdate: fuVersions, infracost: icRegistry + "fetchModuleVersions",
	}, answersVersions},
	{"versions.coding", "they are not compressed, or in a way that the client accepts", files{
		terraform: "net/http", opentofu: "net/http", terragrunt: "net/http", renovate: "lib/util/http/got.ts", dependabot: "excon",
		language: "net/http", updatecli: "net/http", trivy: "net/http", checkov: "requests", tfupdate: "net/http", infracost: "net/http",
	}, plainVersions},
	{"versions.shape", wantsShape, files{
		terraform: tfResponse, opentofu: tfResponse,
	}, decodes[fullVersions](false)},
	{"versions.shape", wantsShape, files{
		language: lsModule + "ModuleVersionsResponse", trivy: trRegistry + "moduleVersions", tfupdate: fuVersions,
	}, decodes[leanVersions](false)},
	{"versions.shape", wantsShape, files{
		terragrunt: tgHelpers + "moduleVersionsResponse", infracost: icRegistry + "fetchModuleVersions",
	}, decodes[leanVersions](true)},
	{"versions.shape", wantsShape, files{
		updatecli: upRegistry + "versions.go",
	}, decodes[sourceVersions](true)},
	{"versions.shape", wantsShape, files{
		renovate: reModule + "schema.ts ProtocolModuleResponse", dependabot: dbClient + "all_module_versions",
		checkov: ckRegistry + "_cache_available_versions",
	}, fetches},
	{"versions.some", "the answer has a module with a version", files{
		terraform: "internal/initwd/module_install.go installRegistryModule", opentofu: "internal/initwd/module_install.go installRegistryModule",
		terragrunt: tgHelpers + "listModuleVersions", renovate: reModule + "schema.ts ProtocolModuleResponse",
		dependabot: dbClient + "all_module_versions", trivy: trRegistry + "resolveVersion", checkov: ckRegistry + "_cache_available_versions",
		infracost: icRegistry + "lookupModule", language: lsModule + "GetMatchingModuleVersion",
		updatecli: upRegistry + "versions.go versions", tfupdate: fuVersions,
	}, someVersions},
	{"versions.one", "the answer has only one module", files{
		trivy: trRegistry + "resolveVersion", updatecli: upRegistry + "versions.go versions",
	}, oneModule},
	{"versions.parsable", wantsVersions, files{
		terraform: "internal/initwd/module_install.go installRegistryModule", opentofu: "internal/initwd/module_install.go installRegistryModule",
	}, parsable(warn)},
	{"versions.parsable", wantsVersions, files{
		dependabot: dbClient + "all_module_versions", infracost: icRegistry + "findLatestMatchingVersion",
	}, parsable(fail)},
	{"versions.source", "the source is the URL of a repository", files{renovate: reModule + "index.ts queryRegistryVersions"}, linksSource},
	{"versions.absent", "a module that does not exist is answered with 404", files{
		terraform: tfClient + "ModuleVersions", opentofu: tfClient + "ModulePackageVersions", dependabot: dbClient + "http_get!",
		renovate: reModule + "base.ts handleHttpErrors",
	}, absentModule},

	{"download.location", "the client finds the location of a version in the answer", files{
		terraform: tfClient + "ModuleLocation", opentofu: tfClient + "ModulePackageLocation", terragrunt: tgHelpers + "GetTerraformGetHeader",
		dependabot: dbClient + "source", trivy: trRegistry + "Resolve", checkov: ckRegistry + "_load_module", infracost: icRegistry + "DownloadLocation",
	}, answersDownload},
	{"download.relative", "the client resolves it as Terraform does", files{
		terragrunt: tgHelpers + "GetDownloadURLFromHeader", trivy: trRegistry + "Resolve", checkov: ckRegistry + "_normalize_module_download_url",
		infracost: icRegistry + "DownloadLocation",
	}, sameAddress},
	{"download.address", "it is an address that the client fetches", files{
		terraform: "internal/getmodules/getter.go", opentofu: "internal/getmodules/getter.go", terragrunt: "internal/getter/tfr.go",
		trivy: "pkg/iac/scanners/terraform/parser/resolvers/remote.go Resolve", infracost: "internal/hcl/modules/fetch.go",
	}, fetchable},
	{"download.version", "the location is that of the requested version", files{
		terraform: tfClient + "ModuleLocation", opentofu: tfClient + "ModulePackageLocation", terragrunt: tgHelpers + "GetTerraformGetHeader",
		trivy: trRegistry + "Resolve", checkov: ckRegistry + "_load_module", infracost: icRegistry + "DownloadLocation",
	}, locatesVersion},
	{"download.direct", "the token is sent to this registry only", files{
		opentofu: "internal/registry/client.go preparePackageLocationDirect",
	}, directMode},
	{"download.v", "a version is also found with a leading v", files{
		terragrunt: "internal/getter/tfr.go",
	}, spelled(func(_, canonical string) string { return "v" + canonical }, "Terragrunt requests a version as written, and does not find it with a leading v")},
	{"download.latest", "the version latest is found", files{
		checkov: ckRegistry + "_find_best_version",
	}, spelled(func(string, string) string { return "latest" }, "Checkov does not read modules that are called without a version")},
	{"download.unversioned", "a module is found without a version", files{
		trivy: trRegistry + "Resolve",
	}, spelled(func(string, string) string { return "" }, "Trivy does not read modules that are called without a version")},
	{"download.absent", "a version that does not exist is answered with 404", files{
		terraform: tfClient + "ModuleLocation", opentofu: tfClient + "ModulePackageLocation",
	}, absentVersion},
	{"download.stable", "repeated requests for a version return the same address", files{terragrunt: "internal/getter/resolver_tfr.go"}, stable},
	{"download.repository", "the address is not mistaken for that of a repository", files{
		dependabot: "common/lib/dependabot/source.rb from_url",
	}, noRepository},

	{"package.archive", "the client recognizes the package as an archive", with(byGetter("go-getter client.go Get"), checkov,
		ckRegistry+"_get_archive_extension"), namesArchive},
	{"package.get", "it is answered with 200, completely, without a token", with(byGetter(getterHTTP+"GetFile"), checkov,
		"checkov/common/goget/registry/get_registry.py do_get"), givesPackage},
	{"package.head", "HEAD does not report an empty package", files{
		terraform: getterHTTP + "GetFile, until 1.14", tofuOld: getterHTTP + "GetFile", terragrunt: getterHTTP + "GetFile",
		infracost: getterHTTP + "GetFile",
	}, headsPackage},
	{"package.encoding", "it has no Content-Encoding", byGetter(getterHTTP + "GetFile"), plainPackage},
	{"package.unpacks", "it unpacks", with(byGetter(getterUntar), checkov, "checkov/common/util/file_utils.py extract_tar_archive"), unpacks},
	{"package.links", "it has no links", byGetter(getterUntar), noLinks},
	{"package.modes", "its files can be read", byGetter(getterUntar), readable},
	{"package.module", "the module is where the location says", byGetter("internal/initwd/module_install.go, or the client's copy of it"), hasModule},

	{"api.details", wantsDetails, files{language: lsModule + "ModuleResponse"}, languageKnows},
	{"api.details", wantsDetails, files{
		assistant: mcpTools + "get_module_details.go",
	}, assistantKnows},
	{"api.defaults", "the default of an input is JSON in a string", files{language: lsModule + "Input"}, defaultsAreJSON},
	{"api.latest", "the latest version is described, and is the newest one", files{
		assistant: mcpTools + "get_latest_module_version.go",
	}, assistantLatest},
	{"api.latest", "the latest version is described, with the versions that are listed", files{
		renovate: reModule + "schema.ts TerraformModuleResponse",
	}, renovateLatest},
	{"api.v2", "the versions that are listed have their dates", files{
		renovate:   reModule + "schema.ts TerraformModuleV2Response",
		dependabot: "terraform/lib/dependabot/terraform/package/package_details_fetcher.rb fetch_tag_and_release_date_from_module",
	}, datesVersions},
	{"api.docs", "the second API of OpenTofu's registry has the versions that are listed", files{
		renovate: reModule + "schema.ts OpenTofuModuleDocsResponse",
	}, tofuDocs},
	{"api.list", "modules are listed", files{assistant: mcpTools + "search_modules.go"}, listsModules},
	{"api.pages", "the pages of the list come to an end", files{assistant: mcpTools + "search_modules.go"}, endsPages},
	{"api.search", "a module is found by its name in quotes", files{assistant: mcpTools + "search_modules.go"}, searches},
}
