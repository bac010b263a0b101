package static

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/template"
)

var nginxText = template.Must(template.New("").Funcs(template.FuncMap{"location": location}).Parse(
	`# The configuration with which nginx serves this directory to Terraform and OpenTofu:
#
#   server {
#     listen 443 ssl;
#     server_name modules.example.com;
#     ssl_certificate …; ssl_certificate_key …;
#     root {{.Dir}};
#     include {{.Dir}}/nginx.conf;
#   }
#
# root is the directory in which this file is, where nginx runs.
#
# and in the configuration of the clients, ~/.terraformrc or ~/.tofurc:
#
{{- range .Hosts}}
#   host "{{.}}" {
#     services = { "modules.v1" = "https://modules.example.com/{{.}}/v1/modules/" }
#   }
{{- end}}
#
# A host block replaces the discovery document of the host.
{{- range .Installation}}
#   {{.}}
{{- else}} For providers,
# clients then need a provider_installation block with a mirror, or "providers.v1".
{{- end}}
#
# "modproxy mirror --to-dir" replaces this file: reload nginx afterwards.

autoindex off;

location = /.well-known/terraform.json {
  types { }
  default_type application/json;
}
location = /nginx.conf { return 404; }
location ~ ^/[^/]+/v1/modules/[^/]+/[^/]+/[^/]+/versions$ {
  types { }
  default_type application/json;
}
location ~ ^/[^/]+/v1/modules/[^/]+/[^/]+/[^/]+/[^/]+/download$ {
  types { }
  default_type application/json;
  add_header X-Terraform-Get "{{location ""}}";
}
location ~ \.tar\.gz$ {
  types { }
  default_type application/gzip;
}
location ~ ^/providers/.*\.json$ {
  types { }
  default_type application/json;
}
location ~ ^/providers/.*\.zip$ {
  types { }
  default_type application/zip;
}
{{- if .Subdirs}}

# Modules that are not at the root of their package.
{{- end}}
{{- range .Subdirs}}
location = "{{.Path}}/download" {
  types { }
  default_type application/json;
  add_header X-Terraform-Get "{{location .Subdir}}";
}
{{- end}}
`))

// nginx writes the configuration of nginx. subdirs are the directories of modules in their packages, by path.
func nginx(w io.Writer, held Summary, hosts []string, subdirs map[string]string) error {
	dir := held.dir
	if strings.ContainsAny(dir, "\"\\$\n\r;{}'") {
		return fmt.Errorf("%q: nginx cannot serve a directory with such a name", dir)
	}
	type module struct{ Path, Subdir string }
	var all []module
	for _, path := range slices.Sorted(maps.Keys(subdirs)) {
		all = append(all, module{path, subdirs[path]})
	}
	var lines []string
	for line := range strings.Lines(held.NetworkInstallation("https://modules.example.com")) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return nginxText.Execute(w, map[string]any{"Dir": dir, "Hosts": hosts, "Subdirs": all, "Installation": lines})
}
