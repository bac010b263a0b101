package config

import (
	"fmt"
	"slices"
	"strings"
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
		"a private address over SSH": {host + "egress: {ports: [22]}\ncredentials: [{host: 10.0.0.5, ssh_key_file: x, known_hosts_file: y}]\n" +
			"modules:\n- {address: corp/vpc/aws, source: 'git::ssh://git@10.0.0.5/vpc.git'}",
			"FILE:5: modules[0].source: destination not allowed: 10.0.0.5:22 is private-use (RFC 1918) (operator: egress.allow can except it)\n"},
		"the port of SSH": {host + "credentials: [{host: git.example.com, ssh_key_file: x, known_hosts_file: y}]\n" +
			"modules:\n- {address: corp/vpc/aws, source: 'git::ssh://git@git.example.com/vpc.git'}",
			"FILE:4: modules[0].source: destination not allowed: port 22 of git.example.com (operator: egress.allow can except it)\n"},
		"no SSH key": {host + "modules:\n- {address: corp/vpc/aws, source: 'git::ssh://git@git.example.com/vpc.git'}",
			"FILE:3: modules[0].source: credentials[] has no SSH key for git.example.com\n"},
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

// TestOwnModulesEscapes: placeholders, sources, paths and patterns that could lead elsewhere.
func TestOwnModulesEscapes(t *testing.T) {
	const entry = "modules_host: modules.example.com\nmodules:\n- {address: %q, source: %q, path: %q, tags: %q}\n"
	good := [4]string{"acme/{name}/{system}", "git::https://git.example.com/acme/{name}-{system}.git", "{system}/{name}", "{system}/{name}/v{version}"}
	if _, err := Load(writeFile(t, "modproxy.yaml", fmt.Sprintf(entry, good[0], good[1], good[2], good[3])), nil, nil); err != nil {
		t.Fatal(err)
	}
	for part, values := range [4][]string{
		{"../{name}/{system}", "*/{name}/{system}", "{name}/{name}/{system}", "acme/x{name}/{system}", "acme/{system}/{name}",
			"modules.example.com/acme/{name}/{system}", "acme/{name}", "acme/{name}/..", "acme/{name}/{system}/x", "acme/{name}/{system}\n"},
		{"git::https://{name}.example.com/{system}.git", "git::https://{name}/{system}.git", "git::https://git.example.com:{name}/{system}.git",
			"git::https://{name}@git.example.com/{system}.git", "git::ssh://{name}@git.example.com/{system}.git", "git::{name}://git.example.com/{system}.git",
			"git::{name}@git.example.com:{system}.git", "git::git@{name}:{system}.git", "{name}::https://git.example.com/{system}.git", "{name}/{system}",
			"git::https://user:secret@git.example.com/{name}-{system}.git", "git::https://git.example.com/{name}-{system}.git?ref=main",
			"git::https://git.example.com/{name}?ref={system}", "git::https://git.example.com/{name}-{system}.git#main",
			"git::https://git.example.com/{name}.git//{system}", "git::https://git.example.com/../{name}-{system}.git",
			"git::https://git.example.com/a/../{name}-{system}.git", "git::https://git.example.com/a/%2e%2e/{name}-{system}.git",
			"git::https://git.example.com/a/%2E./{name}-{system}.git", "git::ssh://git@git.example.com/../{name}-{system}.git",
			"git::https://git.example.com/%7Bname%7D-{name}-{system}.git", "git::https://git.example.com/{name}-{system}-{version}.git",
			"git::https://git.example.com/{name}%0a{system}.git", "git::https://git.example.com/{name}%5c{system}.git", "git::https://git.example.com/{name}\n{system}.git",
			`git::https://git.example.com\@169.254.169.254/{name}-{system}.git`, "git::https://169.254.169.254/{name}-{system}.git",
			"git::https://[::1]/{name}-{system}.git", "git::https://[::ffff:10.0.0.1]/{name}-{system}.git", "git::https://127.1/{name}-{system}.git",
			"git::https://0x7f000001/{name}-{system}.git", "git::http://git.example.com/{name}-{system}.git", "git::git://git.example.com/{name}-{system}.git",
			"git::file:///srv/{name}-{system}.git", "git::/srv/{name}-{system}.git", "/srv/{name}-{system}.git", "./{name}-{system}.git",
			"git::ext::sh -c id {name} {system}", "git::-uid@git.example.com:{name}-{system}.git", "git::ssh://-oProxyCommand=id/{name}-{system}.git",
			"git::ssh://git@-oProxyCommand=id/{name}-{system}.git", "git::ssh://git.example.com/-{name}-{system}.git",
			"git::https://git.example.com:22/{name}-{system}.git", "oci://{name}.example.com/{system}", "oci://user:secret@oci.example.com/{name}/{system}",
			"oci://oci.example.com/../{name}/{system}", "oci://oci.example.com/{name}/{system}?tag=1", "oci://oci.example.com/{name}/{system}@sha256:0",
			"oci://oci.example.com/{name}/{system}:latest", "oci://169.254.169.254/{name}/{system}", "hg::https://git.example.com/{name}-{system}",
			"s3::https://git.example.com/{name}-{system}", "https://git.example.com/{name}-{system}.zip", ""},
		{"..", "../{name}", "a/../../{name}", "/{name}", "a//{name}", "%2e%2e/{name}", "{name}/*", "{name}?", "{other}", "./{name}", "{name}\n", "{name}\x00", `a\..\{name}`},
		{"{version}{version}", "v", "../{version}", "{name}/../{version}", "*{version}", "{version}?", "refs/..//{version}", "v{version}^{}", "v{version}\n",
			"{other}{version}", "-{version}", "/v{version}", "v{version}/", "{name}~{version}", "v{version}\x1b[2J"},
	} {
		for _, value := range values {
			set := good
			set[part] = value
			_, err := Load(writeFile(t, "modproxy.yaml", fmt.Sprintf(entry, set[0], set[1], set[2], set[3])), nil, nil)
			if err == nil {
				t.Errorf("%q is accepted", value)
			} else if text := err.Error(); !strings.Contains(text, ":3: modules[0]") || strings.Contains(text, "secret") || strings.ContainsAny(text, "\x00\x1b") {
				t.Errorf("%q: %q", value, text)
			}
		}
	}
}
