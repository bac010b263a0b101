package conformance

import "time"

// Names of the clients.
const (
	terraform  = "Terraform"
	opentofu   = "OpenTofu"
	tofuOld    = "OpenTofu 1.11"
	terragrunt = "Terragrunt"
	renovate   = "Renovate"
	dependabot = "Dependabot"
	language   = "terraform-ls"
	assistant  = "terraform-mcp-server"
	updatecli  = "Updatecli"
	trivy      = "Trivy"
	checkov    = "Checkov"
	tfupdate   = "tfupdate"
	infracost  = "Infracost"
)

const (
	goAgent  = "Go-http-client/1.1"
	tofuHost = "registry.opentofu.org"
	docsHost = "api.opentofu.org" // where tools look for modules published at tofuHost
)

// client describes one client: how it sends requests, and how it reads answers that it needs for further requests.
type client struct {
	name, version string // the version that was read
	like          string // the client with the same rules, if this is an older version of it
	repository    string // on GitHub

	agent, getter     string        // User-Agent of requests to the registry, and of requests for packages
	encoding          string        // Accept-Encoding; empty for none
	header            string        // X-Terraform-Version
	discovery, others time.Duration // timeouts of an answer; 0 for none
	redirects         int           // maximum number for discovery; 0 for 10
	based             bool          // accepts a base URL with a path in its configuration
	tokens            int           // which requests carry a token: see shows
	direct            bool          // downloads packages itself if the answer asks for its token
	raw               bool          // sends versions as they are listed, not as Terraform spells them

	// base returns the URL of a path below the base URL that discovery names. It is nil for a client that uses
	// /v1/modules/.
	base func(v *visit, d *document, path string) (string, error)
	// location reads the answer to a download. It is nil for a client that downloads nothing.
	location func(*answer) (string, error)
	// resolve converts a location to a download address. from is the URL of the request.
	resolve func(v *visit, from, location string) (string, error)
}

const (
	noToken         = iota
	tokenModules    // all but discovery and packages
	tokenEverywhere // all but packages
)

func (c *client) shows(p part) bool {
	return c.tokens == tokenEverywhere && p == ofDiscovery || c.tokens != noToken && p == ofModules
}

func (c *client) wait(p part) time.Duration {
	wait := c.others
	if p == ofDiscovery {
		wait = c.discovery
	}
	if wait == 0 {
		return patience
	}
	return wait
}

func (c *client) hops(p part) int {
	if p == ofDiscovery && c.redirects > 0 {
		return c.redirects
	}
	return 10
}

// clients are the tested clients. If versions of a client differ, the entry is the strictest one.
var clients = []client{
	{
		// Discovery as in 1.15, which waits 5 s instead of 11. Everything else is the same since 1.5.
		name: terraform, version: "1.5–1.15", repository: "hashicorp/terraform", agent: "Terraform/1.11.4", header: "1.11.4",
		getter: goAgent, encoding: "gzip", discovery: 5 * time.Second, others: 10 * time.Second, redirects: 3, based: true,
		tokens: tokenEverywhere, base: reference, location: terraformLocation, resolve: relative,
	}, {
		name: opentofu, version: "1.12", repository: "opentofu/opentofu", agent: "OpenTofu/1.12.6", header: "1.12.6",
		getter: "OpenTofu/1.12.6", encoding: "gzip", discovery: 10 * time.Second, others: 10 * time.Second, based: true,
		tokens: tokenEverywhere, base: reference, location: tofuLocation, resolve: relative, direct: true,
	}, {
		name: tofuOld, like: opentofu, version: "1.6–1.11", repository: "opentofu/opentofu", agent: "OpenTofu/1.11.5",
		header: "1.11.5", getter: "OpenTofu/1.11.5", encoding: "gzip", discovery: 10 * time.Second, others: 10 * time.Second,
		based: true, tokens: tokenEverywhere, base: reference, location: tofuLocation, resolve: relative,
	}, {
		name: terragrunt, version: "1.1.3", repository: "gruntwork-io/terragrunt", agent: goAgent, getter: goAgent, encoding: "gzip",
		tokens: tokenEverywhere, raw: true, base: terragruntBase, location: terragruntLocation, resolve: relative,
	}, {
		name: renovate, version: "44.121", repository: "renovatebot/renovate", based: true,
		agent: "RenovateBot/44.121.0 (https://github.com/renovatebot/renovate)", encoding: "gzip",
		tokens: tokenEverywhere, base: renovateBase,
	}, {
		name: dependabot, version: "0.392", repository: "dependabot/dependabot-core", agent: "dependabot-core/0.392.0 excon/1.5.0",
		tokens: tokenEverywhere, base: dependabotBase, location: dependabotLocation, resolve: relative,
	}, {
		name: language, version: "0.39.0", repository: "hashicorp/terraform-ls", agent: goAgent, encoding: "gzip", others: 5 * time.Second,
	}, {
		name: assistant, version: "1.2.0", repository: "hashicorp/terraform-mcp-server", agent: "terraform-mcp-server/1.2.0", encoding: "gzip",
	}, {
		name: updatecli, version: "0.120.1", repository: "updatecli/updatecli", agent: "updatecli/0.120.1", encoding: "gzip",
		base: updatecliBase,
	}, {
		name: trivy, version: "0.74.0", repository: "aquasecurity/trivy", agent: "trivy/0.74.0", getter: goAgent, encoding: "gzip",
		others: 5 * time.Second, tokens: tokenModules, location: trivyLocation, resolve: asIs,
	}, {
		name: checkov, version: "3.3.13", repository: "bridgecrewio/checkov", agent: "python-requests/2.32.5", getter: "python-requests/2.32.5",
		encoding: "gzip", tokens: tokenModules, raw: true, base: checkovBase, location: checkovLocation, resolve: checkovResolve,
	}, {
		name: tfupdate, version: "0.10.2", repository: "minamijoyo/tfupdate", agent: goAgent, encoding: "gzip", based: true,
	}, {
		name: infracost, version: "0.10.45", repository: "infracost/infracost", agent: goAgent, getter: goAgent, encoding: "gzip",
		discovery: 11 * time.Second, redirects: 3, tokens: tokenEverywhere,
		base: infracostBase, location: headerLocation, resolve: infracostResolve,
	},
}
