package app

import (
	"strings"
	"text/template"

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
# A host block stands in for everything that the host says of itself. Clients show
# the token for the host to every URL in it, so all of them are this proxy's: it
# passes on what the host answers about its providers.
{{- if .Asks}}
#
# This proxy wants a token, which "modproxy token create" makes. Clients show it for
# the host that stands in the source address: with the lines below, or where the
# host has no port, with a variable.
{{- end}}
{{range .Hosts}}
{{- if .Warn}}
# Terraform cannot use a hostname that is not ASCII; OpenTofu can.
{{- end}}
host "{{.Name}}" {
  services = {
    "modules.v1"   = "{{.Base}}modules/"
    "providers.v1" = "{{.Base}}providers/"
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
{{end}}`))

// ClientConfig returns the CLI configuration that makes tool ("terraform", "tofu" or, for both, empty) ask the
// proxy at the URL base for the modules and providers of the upstreams. The upstream of any name has no block.
func ClientConfig(base, tool string, c *config.Config) string {
	var hosts []map[string]any
	for _, u := range c.Upstreams {
		if u.Host == "*" {
			continue
		}
		name := hostname.Display(u.Host)
		hosts = append(hosts, map[string]any{
			"Name": name, "Base": strings.TrimRight(base, "/") + "/" + u.Host + "/v1/",
			"Variable": hostname.TokenVariable(u.Host), "Warn": name != u.Host && tool != "tofu",
		})
	}
	var text strings.Builder
	if err := clientConfigText.Execute(&text, map[string]any{"Tool": tool, "Hosts": hosts, "Asks": c.RequiresToken()}); err != nil {
		panic(err) // nothing in it can fail
	}
	return text.String()
}
