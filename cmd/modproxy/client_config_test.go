package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
)

func TestClientConfigGolden(t *testing.T) {
	const upstreams = `MODPROXY_UPSTREAMS=[{host: registry.terraform.io}, {host: "*"}, {host: "registry.acme.example:8443"}, {host: bücher.example}]`
	const modules = `MODPROXY_MODULES=[{address: corp/vpc/aws, source: "git::https://git.example.com/vpc.git"}]`
	for name, test := range map[string]struct {
		variables []string
		args      []string
	}{
		"own":        {[]string{modules, "MODPROXY_MODULES_HOST=private.example.com", "MODPROXY_LISTEN=:8443", "MODPROXY_PUBLIC_URL=https://modules.example.com"}, nil},
		"own-name":   {[]string{modules, "MODPROXY_PUBLIC_URL=https://modules.example.com"}, []string{"--providers=mirror", "--tool=tofu"}},
		"own-plain":  {[]string{modules, "MODPROXY_MODULES_HOST=127.0.0.1:8080", upstreams}, []string{"--tool=terraform"}},
		"both":       {nil, []string{}},
		"terraform":  {[]string{upstreams}, []string{"--tool", "terraform", "--url", "https://modules.example.com/registry/"}},
		"token":      {[]string{upstreams, "MODPROXY_LISTEN=:8443", "MODPROXY_PUBLIC_URL=https://modules.example.com"}, nil},
		"mirror":     {[]string{upstreams, "MODPROXY_PUBLIC_URL=https://modules.example.com:8443"}, []string{"--providers=mirror"}},
		"mirror-one": {nil, []string{"--providers=mirror", "--url=https://modules.example.com/registry", "--tool=terraform"}},
		"tofu":       {[]string{upstreams, "MODPROXY_PUBLIC_URL=https://modules.example.com", "MODPROXY_ANONYMOUS=true"}, []string{"--tool=tofu"}},
	} {
		got := command(t, test.variables, append([]string{"client-config"}, test.args...)...)
		if got.code != exitDone || got.stderr != "" {
			t.Errorf("%s: exit code %d: %s", name, got.code, got.stderr)
		}
		golden(t, "client-config."+name, got.stdout)
	}
}

// Clients send the token of a host to every URL in its block.
func TestClientConfigNamesNobodyElse(t *testing.T) {
	urls := regexp.MustCompile(`\b[a-z]+://[^"\s]*`)
	for _, base := range []string{"http://127.0.0.1:8080", "https://modules.example.com/registry"} {
		for _, tool := range append(slices.Clone(tools), "") {
			for _, asks := range []bool{true, false} {
				for _, mirror := range []bool{true, false} {
					c := config.Default()
					c.Auth.Required = asks
					c.Modules, c.ModulesHost = []config.Module{{Address: "corp/vpc/aws", Source: "git::https://git.example.com/vpc.git"}}, "private.example.com"
					c.Upstreams = []config.Upstream{{Host: "registry.terraform.io"}, {Host: "registry.opentofu.org"}, {Host: "*"}, {Host: "a.example:8443"}, {Host: "xn--bcher-kva.example"}}
					all, want := urls.FindAllString(app.ClientConfig(base, tool, mirror, c, nil), -1), 2*(len(c.Upstreams)-1)+1
					if mirror {
						want++
					}
					if len(all) != want {
						t.Errorf("%q: want two URLs for each upstream, and one for own modules, got %q", tool, all)
					}
					for _, u := range all {
						if !strings.HasPrefix(u, base+"/") {
							t.Errorf("%q: a token is shown to %s", tool, u)
						}
					}
				}
			}
		}
	}
}

func TestClientConfigBase(t *testing.T) {
	const certificate = "MODPROXY_TLS_CERT_FILE=c.pem"
	const key = "MODPROXY_TLS_KEY_FILE=k.pem"
	for want, variables := range map[string][]string{
		"http://127.0.0.1:8080":            nil,
		"http://localhost:80":              {"MODPROXY_LISTEN=:80", "MODPROXY_ANONYMOUS=true"},
		"https://localhost:8443":           {"MODPROXY_LISTEN=[::]:8443", "MODPROXY_ANONYMOUS=true", certificate, key},
		"https://[::1]:8443":               {"MODPROXY_LISTEN=[::1]:8443", certificate, key},
		"http://modules.corp.example:8080": {"MODPROXY_LISTEN=modules.corp.example:8080", "MODPROXY_ANONYMOUS=true"},
		"https://modules.example.com/r":    {"MODPROXY_PUBLIC_URL=https://modules.example.com/r//"},
	} {
		got := command(t, variables, "client-config")
		block := `"modules.v1"   = "` + want + `/registry.terraform.io/v1/modules/"`
		if !strings.Contains(got.stdout, block) {
			t.Errorf("%q: want %s in\n%s%s", variables, block, got.stdout, got.stderr)
		}
	}
}

// Clients reject a network mirror without https, with a message that does not help.
func TestClientConfigMirror(t *testing.T) {
	if got := command(t, nil, "client-config", "--providers", "mirror"); got.code == exitDone || !strings.Contains(got.stderr, "https") {
		t.Errorf("without TLS: %+v", got)
	}
	if got := command(t, nil, "client-config", "--providers", "mirrors"); got.code != exitMisuse || !strings.Contains(got.stderr, "mirror?") {
		t.Errorf("an unknown protocol: %+v", got)
	}
}

func TestClientConfigTool(t *testing.T) {
	if got := command(t, nil, "client-config", "--tool", "terragrunt"); got.code != exitMisuse || got.stdout != "" {
		t.Errorf("an unknown tool: %+v", got)
	}
}
