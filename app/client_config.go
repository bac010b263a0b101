package app

import (
	"net/url"
	"slices"
	"strings"
	"text/template"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/hostname"
)

var clientConfigText = template.Must(template.New("").Parse(
	`{{if .Tool -}}
# For ~/.{{.Tool}}rc (%APPDATA%\{{.Tool}}.rc on Windows), or for the file that
# TF_CLI_CONFIG_FILE names.
{{- else -}}
# For Terraform: ~/.terraformrc (%APPDATA%\terraform.rc on Windows).
# For OpenTofu: ~/.tofurc (%APPDATA%\tofu.rc on Windows).
# For either: the file that TF_CLI_CONFIG_FILE names.
{{- end}}
#
# A host block replaces the discovery document of the host. Clients send their token
# for the host to every URL in the block, so every URL is one of this proxy.
{{- if .Login}} Those of
# login.v1 are URLs of the issuer, which receives no token.
{{- end}}
#
{{- if .Mirror}}
# Providers come from a network mirror, one URL for all hosts. Clients verify no
# signature then, and lock the checksum for their own platform; with trust_all_hashes
# OpenTofu 1.12 and newer locks those of all platforms for providers of
# registry.opentofu.org. The host blocks are for modules, and for "providers lock".
# Unless you need one URL for all hosts, "--providers registry" is the better choice.
{{- else}}
# Providers come by the registry protocol: clients verify signatures themselves, and
# lock the checksums for all platforms. That is the better choice, unless providers
# of all hosts must come from one https URL: "--providers mirror".
{{- end}}
{{- if .Asks}}
#
# This proxy requires a token, which "modproxy token create" creates. Clients send it
# for the host in the source address: with the lines below or, if the host has no
# port, with a variable.
{{- if .Login}} People get one by "terraform login HOST"
# or "tofu login HOST", unless TF_CLI_CONFIG_FILE is set: what a login stores is beside
# the other files.
{{- end}}
{{- end}}
{{range .Hosts}}
{{- if .Warn}}
# Terraform cannot use a hostname that is not ASCII; OpenTofu can.
{{- end}}
{{- if .Own}}
# Your own modules. No provider has this host.
{{- end}}
host "{{.Name}}" {
  services = {
    {{- if .Own}}
    "modules.v1" = "{{.Base}}modules/"
    {{- else}}
    "modules.v1"   = "{{.Base}}modules/"
    "providers.v1" = "{{.Base}}providers/"
    {{- end}}
    {{- with $.Login}}
    "login.v1" = {
      client      = {{printf "%q" .Client}}
      grant_types = ["{{index .GrantTypes 0}}"]
      authz       = {{printf "%q" .Authorize}}
      token       = {{printf "%q" .Token}}
      ports       = [{{index .Ports 0}}, {{index .Ports 1}}]
      {{- with .Scopes}}
      scopes      = [{{range $i, $scope := .}}{{if $i}}, {{end}}{{printf "%q" $scope}}{{end}}]
      {{- end}}
    }
    {{- end}}
  }
}
{{- if $.Asks}}
# credentials "{{.Name}}" {
#   token = "mp_…"
# }
{{- with .Variable}}
# or {{.}}=mp_…
{{- end}}
{{- end}}
{{end}}
{{- with .Mirror}}
provider_installation {
  network_mirror {
    url     = "{{.}}"
    # trust_all_hashes = true # OpenTofu 1.12 and newer
    {{- if $.Any}}{{with $.Ports}}
    exclude = [{{range $i, $h := .}}{{if $i}}, {{end}}"{{$h}}/*/*"{{end}}]{{end}}
    {{- else}}
    include = [{{range $i, $h := $.Mirrored}}{{if $i}}, {{end}}"{{$h}}/*/*"{{end}}]
    {{- end}}
  }
  {{- if not $.Any}}
  direct {
    exclude = [{{range $i, $h := $.Mirrored}}{{if $i}}, {{end}}"{{$h}}/*/*"{{end}}]
  }
  {{- else if $.Ports}}
  direct { # clients cannot use a mirror for providers of a host with a port
    include = [{{range $i, $h := $.Ports}}{{if $i}}, {{end}}"{{$h}}/*/*"{{end}}]
  }
  {{- end}}
}
{{- if $.Asks}}
# credentials "{{$.MirrorHost}}" {
#   token = "mp_…"
# }
{{- with $.MirrorVariable}}
# or {{.}}=mp_…
{{- end}}
{{- end}}
{{end}}`))

// ClientConfig returns the CLI configuration for tool: "terraform", "tofu" or, for both, empty. With it, clients request the
// modules and providers of the upstreams, and own modules, from the proxy at the URL base. If mirror is set, the proxy is a network
// mirror for providers, and base must be an https URL. If login is not nil, users log in there. The upstream "*" has no host block.
func ClientConfig(base, tool string, mirror bool, c *config.Config, login *auth.Login) string {
	base = strings.TrimRight(base, "/")
	values := map[string]any{"Tool": tool, "Asks": c.RequiresToken()}
	if login != nil {
		values["Login"] = login
	}
	var hosts []map[string]any
	var ports, mirrored []string
	for _, u := range c.Upstreams {
		if u.Host == "*" {
			values["Any"] = true
			continue
		}
		name := hostname.Display(u.Host)
		if strings.Contains(u.Host, ":") {
			ports = append(ports, name)
		} else {
			mirrored = append(mirrored, name)
		}
		hosts = append(hosts, map[string]any{
			"Name": name, "Base": base + "/" + u.Host + "/v1/",
			"Variable": hostname.TokenVariable(u.Host), "Warn": name != u.Host && tool != "tofu",
		})
	}
	if own := c.OwnHost(); own != "" {
		at := base + "/" + own + "/v1/"
		if slices.Contains(ownHosts(c), own) {
			at = base + "/v1/" // other namespaces have modules of other registries there
		}
		name := hostname.Display(own)
		hosts = append(hosts, map[string]any{
			"Name": name, "Base": at, "Own": true, "Variable": hostname.TokenVariable(own), "Warn": name != own && tool != "tofu",
		})
	}
	values["Hosts"], values["Ports"], values["Mirrored"] = hosts, ports, mirrored
	if mirror {
		values["Mirror"] = base + "/-/mirror/"
		if u, err := url.Parse(base); err == nil {
			values["MirrorHost"], values["MirrorVariable"] = u.Host, hostname.TokenVariable(u.Host)
		}
	}
	var text strings.Builder
	if err := clientConfigText.Execute(&text, values); err != nil {
		panic(err) // the template cannot fail with these values
	}
	return text.String()
}
