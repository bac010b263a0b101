package config

import (
	"slices"
	"testing"
)

// TestOwnModulesErrors: entries of modules, and hosts for them, that are wrong.
func TestOwnModulesErrors(t *testing.T) {
	const (
		host = "modules_host: modules.example.com\n"
		vpc  = "modules:\n- {address: corp/vpc/aws, source: 'git::https://git.example.com/corp/vpc.git'}\n"
	)
	for name, test := range map[string]struct{ file, want string }{
		"no host":        {vpc, "FILE:2: modules: set modules_host, the host in the addresses of these modules, or public_url\n"},
		"a URL for host": {"modules_host: https://modules.example.com\n" + vpc, "FILE:1: modules_host: want a hostname, not a URL\n"},
		"any host":       {"modules_host: '*'\n" + vpc, "FILE:1: modules_host: want a hostname\n"},
		"an upstream": {"upstreams: [{host: modules.example.com}]\n" + host + vpc,
			"FILE:2: modules_host: own modules cannot have the host of a registry, modules.example.com: set modules_host to another name\n"},
		"an upstream as public URL": {"upstreams: [{host: modules.example.com}]\npublic_url: https://modules.example.com\n" + vpc,
			"FILE:2: public_url: own modules cannot have the host of a registry, modules.example.com: set modules_host to another name\n"},
		"a public registry": {"upstreams: [{host: a.example}]\nmodules_host: registry.terraform.io\n" + vpc,
			"FILE:2: modules_host: own modules cannot have the host of a registry, registry.terraform.io: set modules_host to another name\n"},
		"no address": {host + "modules:\n- source: git::https://git.example.com/a.git",
			"FILE:3: modules[0]: address: want namespace/name/system, without a host; name may be {name}, and system {system}\n"},
		"no git": {host + "modules:\n- {address: corp/vpc/aws, source: 'https://git.example.com/a.zip'}",
			"FILE:3: modules[0]: source: an archive has no tags; want a repository with tags, such as git::https://git.example.com/acme/terraform-aws-vpc.git or oci://registry.example.com/acme/vpc\n"},
		"a revision": {host + "modules:\n- {address: corp/vpc/aws, source: 'git::https://git.example.com/a.git?ref=v1'}",
			"FILE:3: modules[0]: source: must not have a query or fragment: tags choose the revision\n"},
		"no version in tags": {host + "modules:\n- {address: corp/vpc/aws, source: 'git::https://git.example.com/a.git', tags: v1}",
			"FILE:3: modules[0]: tags: want {version} once, such as v{version}\n"},
		"a placeholder that chooses nothing": {host + "modules:\n- {address: 'corp/{name}/aws', source: 'git::https://git.example.com/a.git', path: '{name}'}",
			"FILE:3: modules[0]: address: {name} must be in source or tags, too; otherwise, write one entry for each module\n"},
		"a hidden entry": {host + "modules:\n- {address: 'corp/{name}/aws', source: 'git::https://git.example.com/{name}.git'}\n" + vpc[len("modules:\n"):],
			"FILE:3: modules: modules[1]: modules[0] matches all of its modules before it\n"},
		"two cases": {host + vpc + "- {address: Corp/dns/aws, source: 'git::https://git.example.com/corp/dns.git'}",
			"FILE:4: modules[1].address: the namespaces corp and Corp differ only in case\n"},
		"a route": {host + vpc + "routes: [{namespace: CORP, upstream: registry.terraform.io}]",
			"FILE:4: routes[0].namespace: modules has modules of namespace corp, which cannot have a route, too\n"},
		"a private address": {host + "modules:\n- {address: corp/vpc/aws, source: 'git::https://10.0.0.1/vpc.git'}",
			"FILE:3: modules[0].source: destination not allowed: 10.0.0.1:443 is private-use (RFC 1918) (operator: egress.allow can except it)\n"},
	} {
		t.Run(name, func(t *testing.T) { checkErrors(t, test.file, nil, test.want) })
	}
}

// TestWebhooksErrors: entries of webhooks that are wrong.
func TestWebhooksErrors(t *testing.T) {
	const vpc = "modules_host: modules.example.com\nmodules: [{address: corp/vpc/aws, source: 'git::https://git.example.com/corp/vpc.git'}]\n"
	for name, test := range map[string]struct{ file, want string }{
		"no secret": {vpc + "webhooks: [{id: github}]",
			"FILE:3: webhooks[0]: want secret or secret_file: without a secret, anybody could send webhooks\n"},
		"two secrets":     {vpc + "webhooks: [{id: github, secret: x, secret_file: y}]", "FILE:3: webhooks[0].secret: secret and secret_file are both set\n"},
		"an absent file":  {vpc + "webhooks: [{id: github, secret_file: absent}]", "FILE:3: webhooks[0].secret_file: open absent: no such file or directory\n"},
		"no ID":           {vpc + "webhooks: [{secret: x}]", "FILE:3: webhooks[0].id: want 1 to 64 letters, digits, - and _\n"},
		"a path":          {vpc + "webhooks: [{id: a/b, secret: x}]", "FILE:3: webhooks[0].id: want 1 to 64 letters, digits, - and _\n"},
		"an ID twice":     {vpc + "webhooks: [{id: a, secret: x}, {id: a, secret: y}]", "FILE:3: webhooks[1].id: a appears twice\n"},
		"without modules": {"webhooks: [{id: a, secret: x}]", "FILE:1: webhooks: they have no effect without modules\n"},
	} {
		t.Run(name, func(t *testing.T) { checkErrors(t, test.file, nil, test.want) })
	}
}

// TestOwnHost: the host of own modules, their namespaces, and that they are private.
func TestOwnHost(t *testing.T) {
	const vpc = "modules:\n- {address: corp/vpc/aws, source: 'git::https://git.example.com/corp/vpc.git'}\n"
	for name, test := range map[string]struct{ file, want string }{
		"none":                  {"public_url: https://proxy.example.com", ""},
		"of the public URL":     {"public_url: https://Proxy.Example.com:443/modproxy\n" + vpc, "proxy.example.com"},
		"with a port":           {"public_url: https://proxy.example.com:8443\n" + vpc, "proxy.example.com:8443"},
		"modules_host":          {"public_url: https://proxy.example.com\nmodules_host: Modules.Example.com\n" + vpc, "modules.example.com"},
		"without modules":       {"modules_host: modules.example.com", "modules.example.com"},
		"not of an upstream, *": {"upstreams: [{host: '*'}]\nmodules_host: modules.example.com\n" + vpc, "modules.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Load(writeFile(t, "modproxy.yaml", test.file), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.OwnHost(); got != test.want {
				t.Errorf("OwnHost is %q, want %q", got, test.want)
			}
			if test.want != "" && (c.IsOpen(test.want) || !c.HasUpstream(test.want)) {
				t.Errorf("%s is open, or unknown", test.want)
			}
			if want := len(c.Modules) > 0; slices.Contains(c.OwnNamespaces(), "corp") != want {
				t.Errorf("namespaces %q", c.OwnNamespaces())
			}
		})
	}
}
