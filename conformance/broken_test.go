package conformance

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

var (
	discoverers = []string{terraform, opentofu, tofuOld, terragrunt, renovate, dependabot, updatecli, checkov, infracost}
	bySvchost   = []string{terraform, opentofu, tofuOld, infracost}
	getters     = []string{terraform, opentofu, tofuOld, terragrunt, trivy, infracost}
	fetchers    = []string{terraform, opentofu, tofuOld, terragrunt, trivy, checkov, infracost}
	protocol    = []string{terraform, opentofu, tofuOld}
	askers      = []string{
		terraform, opentofu, tofuOld, terragrunt, renovate, dependabot, language, updatecli, trivy, checkov, tfupdate, infracost,
	}
)

const (
	doc        = "/.well-known/terraform.json"
	versionsAt = modulePath + "/versions"
	detailsAt  = modulePath + "/1.1.0"
	datesAt    = "/v2/modules/acme/network/aws"
	docsAt     = "/registry/docs/modules/acme/network/aws/index.json"
)

// expected is the verdict of a rule for exactly these clients.
type expected struct {
	verdict Verdict
	rule    string
	clients []string
}

func only(all ...expected) []expected { return all }

func fails(rule string, clients ...string) expected { return expected{Fail, rule, clients} }
func warns(rule string, clients ...string) expected { return expected{Warn, rule, clients} }
func lacks(rule string, clients ...string) expected { return expected{Without, rule, clients} }

// at answers a path with a text.
func at(path, text string) func(registry) { return func(r registry) { r[path] = says(text) } }

// gone removes a path.
func gone(path string) func(registry) { return func(r registry) { delete(r, path) } }

func answers(path string, code int) func(registry) {
	return func(r registry) { r[path] = status(code) }
}

// modules makes discovery name value as the URL of modules.
func modules(value string) func(registry) {
	return at(doc, `{"modules.v1": "`+value+`", "providers.v1": "/v1/providers/"}`)
}

func versions(old, new string) func(registry) {
	return at(versionsAt, strings.ReplaceAll(versioned, old, new))
}

func location(value string) func(registry) { return func(r registry) { r.leads(value) } }

func contents(entries ...tar.Header) func(registry) {
	return func(r registry) { r[packagePath] = holds(entries...) }
}

// edited lets edit change the answer to downloads, with the package's location in the header.
func edited(edit func(w http.ResponseWriter, q *http.Request)) func(registry) {
	return func(r registry) {
		r.downloads(func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("X-Terraform-Get", "http://"+q.Host+packagePath)
			edit(w, q)
		})
	}
}

// moved serves the package at another path as well.
func moved(path string) func(registry) {
	return func(r registry) {
		r[path] = r[packagePath]
		r.leads("http://{host}" + path)
	}
}

// brokenRegistries are registries with one fault each.
var brokenRegistries = []struct {
	name   string
	want   []expected
	host   string // the name of the registry
	breaks func(registry)
}{
	{"no discovery", only(fails("discovery.answer", discoverers...)), "", gone(doc)},
	{"discovery is HTML", only(fails("discovery.answer", discoverers...)), "", at(doc, "<html>")},
	{"modules.v1 is an object", only(fails("discovery.answer", discoverers...)), "", at(doc, `{"modules.v1": {}}`)},
	{"four redirects", only(fails("discovery.answer", terraform, infracost)), "", func(r registry) {
		h := r[doc]
		for i, path := range []string{doc, "/1", "/2", "/3"} {
			next := fmt.Sprintf("/%d", i+1)
			r[path], r[next] = http.RedirectHandler(next, http.StatusFound).ServeHTTP, h
		}
	}},
	{"text/plain", only(fails("discovery.type", bySvchost...)), "", func(r registry) {
		r[doc] = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, discovered)
		}
	}},
	{"an absolute modules.v1", only(fails("discovery.base", updatecli)), "", modules("http://{host}/v1/modules/")},
	{"no slash at the end", only(fails("discovery.base", dependabot, updatecli, checkov, infracost)), "", modules("/v1/modules")},
	{"a user name", only(fails("discovery.base", discoverers...)), "", modules("http://u:p@{host}/v1/modules/")},
	{"a scheme", only(fails("discovery.base", discoverers...)), "", modules("ftp://{host}/v1/modules/")},
	{"no providers", only(lacks("discovery.providers", protocol...)), "", at(doc, `{"modules.v1": "/v1/modules/"}`)},

	{"no versions", only(fails("versions.answer", askers...)), "", answers(versionsAt, http.StatusInternalServerError)},
	{"modules elsewhere", only(lacks("versions.answer", language, trivy, tfupdate)), "", func(r registry) {
		modules("/api/modules/")(r)
		elsewhere := map[string]http.HandlerFunc{}
		for path, h := range r {
			if rest, ok := strings.CutPrefix(path, "/v1/modules/"); ok {
				elsewhere["/api/modules/"+rest] = h
				delete(r, path)
			}
		}
		for path, h := range elsewhere {
			r[path] = h
		}
	}},
	{"gzip that nobody wants", only(fails("versions.coding", dependabot)), "", func(r registry) {
		r[versionsAt] = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, versioned)
			z.Close()
		}
	}},
	{"a number for a version", only(fails("versions.shape", askers...)), "", versions(`"1.0.0"`, "1")},
	{"a string for a root", only(fails("versions.shape", protocol...)), "", versions(`"1.0.0"`, `"1.0.0", "root": "."`)},
	{"upper case", only(fails("versions.shape", renovate, dependabot, checkov)), "", versions("modules", "Modules")},
	{"no modules", only(fails("versions.some", askers...)), "", at(versionsAt, `{"modules": []}`)},
	{"a module without versions", only(fails("versions.some", askers...)), "", at(versionsAt, `{"modules": [{"versions": []}]}`)},
	{"two modules", only(fails("versions.one", updatecli, trivy)), "", versions(`-beta"}]}]}`, `-beta"}]}, {"versions": []}]}`)},
	{"a branch for a version", only(fails("versions.parsable", dependabot, infracost), warns("versions.parsable", protocol...)), "",
		versions(`"versions": [`, `"versions": [{"version": "main"}, `)},
	{"no repository", only(lacks("versions.source", renovate)), "", versions(source, "acme/network/aws")},
	{"an empty list for what is absent", only(fails("versions.absent", terraform, opentofu, tofuOld, renovate, dependabot)), "",
		at("/v1/modules/acme/"+absent+"/aws/versions", `{"modules": []}`)},
	{"a module without versions for what is absent", only(warns("versions.absent", terraform, opentofu, tofuOld, renovate, dependabot)), "",
		at("/v1/modules/acme/"+absent+"/aws/versions", `{"modules": [{"versions": []}]}`)},
	{"403 for what is absent", only(warns("versions.absent", terraform, opentofu, tofuOld, renovate, dependabot)), "",
		answers("/v1/modules/acme/"+absent+"/aws/versions", http.StatusForbidden)},

	{"no location", only(
		fails("download.location", terraform, opentofu, tofuOld, terragrunt, trivy, checkov, infracost), warns("download.location", dependabot),
		fails("download.v", terragrunt),
		fails("download.latest", checkov), fails("download.unversioned", trivy),
	), "", func(r registry) { r.downloads(status(http.StatusNoContent)) }},
	{"a header without JSON", only(
		fails("download.location", opentofu, tofuOld, trivy), warns("download.location", dependabot),
		fails("download.unversioned", trivy),
	), "", edited(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })},
	{"JSON without a header", only(
		fails("download.location", terraform, checkov, infracost), warns("download.location", dependabot),
		fails("download.latest", checkov),
	), "", func(r registry) { r.downloads(says(`{"location": "http://{host}` + packagePath + `"}`)) }},
	{"a path for a location", only(fails("download.relative", trivy)), "", location(packagePath)},
	{"a relative path for a location", only(fails("download.relative", trivy, checkov, infracost)), "", func(r registry) {
		r.leads("./network.tar.gz")
		r[detailsAt+"/network.tar.gz"] = r[packagePath]
	}},
	{"a file for a location", only(fails("download.address", getters...)), "", location("file:///etc")},
	{"a module for a location", only(fails("download.address", getters...)), "", location("acme/network/aws")},
	{"a glob", only(fails("download.address", getters...), fails("package.archive", checkov), fails("package.module", getters...)), "",
		location("http://{host}" + packagePath + "//*")},
	{"a password", only(warns("download.address", getters...)), "", location("http://u:p@{host}" + packagePath)},
	{"a directory that is not there", only(fails("package.module", getters...), fails("package.archive", checkov)), "",
		location("http://{host}" + packagePath + "//net")},
	{"the package of another version", only(fails("download.version", fetchers...)), "", moved("/packages/network-1.0.0.tar.gz")},
	{"the tag of another version", only(fails("download.version", fetchers...)), "",
		location("git::http://{host}/network.git?ref=v1.0.0")},
	{"one package for all versions", only(warns("download.version", fetchers...)), "", func(r registry) {
		r[modulePath+"/1.0.0/download"] = r[detailsAt+"/download"]
		r[modulePath+"/2.0.0-beta/download"] = r[detailsAt+"/download"]
	}},
	{"another host for the token", only(fails("download.direct", opentofu), warns("download.location", dependabot)), "",
		edited(func(w http.ResponseWriter, q *http.Request) {
			elsewhere := strings.Replace(q.Host, "127.0.0.1", "localhost", 1)
			says(`{"location": "http://`+elsewhere+packagePath+`", "use_registry_credentials": true}`)(w, q)
		})},
	{"a text for OpenTofu", only(fails("package.unpacks", opentofu)), "", func(r registry) {
		r["/text"] = says("no archive")
		r.forOpenTofu(`{"location": "/text", "use_registry_credentials": false}`)
	}},
	{"versions as they are spelled", only(fails("download.location", terragrunt, checkov),
		lacks("download.v", terragrunt), lacks("download.latest", checkov), lacks("download.unversioned", trivy)), "", func(r registry) {
		versions(`"1.1.0"`, `"1.1"`)(r)
		for _, version := range []string{"", "/v1.1.0", "/latest"} {
			delete(r, modulePath+version+"/download")
		}
	}},
	{"any version", only(fails("download.absent", protocol...)), "", func(r registry) {
		r[modulePath+"/999.999.999/download"] = r[detailsAt+"/download"]
	}},
	{"an address for each client", only(warns("download.stable", terragrunt)), "", func(r registry) {
		n := 0
		r.downloads(func(w http.ResponseWriter, q *http.Request) {
			n++
			leads(fmt.Sprintf("http://{host}%s?n=%d", packagePath, n))(w, q)
		})
	}},
	{"an address like a repository", only(fails("download.repository", dependabot)), "", moved("/gitlab.com/v1/modules/network.tar.gz")},
	{"a status like GitHub's", only(fails("download.repository", dependabot)), "", func(r registry) {
		r["/status"] = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-GitHub-Request-Id", "1") }
	}},

	{"no suffix", only(fails("package.archive", fetchers...)), "", moved("/packages/network")},
	{"upper case suffix", only(fails("package.archive", fetchers...)), "", moved("/packages/network.TAR.GZ")},
	{"a query before the format", only(fails("package.archive", checkov)), "", func(r registry) {
		moved("/packages/network")(r)
		r.leads("http://{host}/packages/network?a=b&archive=tar.gz")
	}},
	{"a signed query", only(fails("package.get", getters...)), "", func(r registry) {
		h := r[packagePath]
		r.leads("http://{host}" + packagePath + "?z=1&a=2")
		r[packagePath] = func(w http.ResponseWriter, q *http.Request) {
			if q.URL.RawQuery != "z=1&a=2" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			h(w, q)
		}
	}},
	{"no package", only(fails("package.get", fetchers...)), "", gone(packagePath)},
	{"half a package", only(fails("package.get", fetchers...)), "", func(r registry) {
		r[packagePath] = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, "half")
		}
	}},
	{"an empty HEAD", only(fails("package.head", terraform, tofuOld, terragrunt, infracost)), "", func(r registry) {
		h := r[packagePath]
		r[packagePath] = func(w http.ResponseWriter, q *http.Request) {
			if q.Method == http.MethodHead {
				w.Header().Set("Accept-Ranges", "bytes")
				w.Header().Set("Content-Length", "0")
				return
			}
			h(w, q)
		}
	}},
	{"an encoding", only(fails("package.encoding", getters...)), "", func(r registry) {
		h := r[packagePath]
		r[packagePath] = func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			h(w, q)
		}
	}},
	{"no archive", only(fails("package.unpacks", fetchers...)), "", at(packagePath, "no archive")},
	{"an empty archive", only(fails("package.unpacks", fetchers...)), "", contents()},
	{"a file outside", only(fails("package.unpacks", fetchers...)), "", contents(tar.Header{Name: "main.tf"}, tar.Header{Name: "../x"})},
	{"a link", only(fails("package.links", getters...)), "",
		contents(tar.Header{Name: "main.tf"}, tar.Header{Name: "x", Typeflag: tar.TypeSymlink, Linkname: "main.tf"})},
	{"a file that nobody reads", only(fails("package.modes", getters...)), "", contents(tar.Header{Name: "main.tf", Mode: 0o200})},
	{"a directory around all", only(fails("package.module", getters...)), "", contents(tar.Header{Name: "network/main.tf"})},
	{"no configuration", only(warns("package.module", getters...)), "", contents(tar.Header{Name: "README.md"})},

	{"no details", only(lacks("api.details", language, assistant)), "", gone(detailsAt)},
	{"a date that is empty", only(fails("api.details", language, assistant)), "", at(detailsAt, strings.ReplaceAll(described, "2023-01-02T03:04:05Z", ""))},
	{"no date", only(warns("api.details", assistant)), "", at(detailsAt, strings.ReplaceAll(described, "published_at", "date"))},
	{"a default that is a string", only(warns("api.defaults", language)), "", at(detailsAt, strings.ReplaceAll(described, `"\"b\""`, `"b"`))},
	{"a default that is no string", only(fails("api.details", language)), "", at(detailsAt, strings.ReplaceAll(described, `"\"b\""`, `1`))},
	{"downloads that are a string", only(fails("api.details", assistant)), "", at(detailsAt, strings.ReplaceAll(described, `: 3`, `: "3"`))},
	{"another version", only(fails("api.details", assistant)), "", at(detailsAt, strings.ReplaceAll(described, `"version": "1.1.0"`, `"version": "1.0.0"`))},
	{"not the latest", only(fails("api.latest", assistant)), "", at(modulePath, strings.ReplaceAll(described, `"version": "1.1.0"`, `"version": "1.0.0"`))},
	{"versions that are not listed", only(fails("api.latest", renovate)), "", at(modulePath, strings.ReplaceAll(described, `["1.0.0"`, `["0.9.0", "1.0.0"`))},
	{"no list of versions", only(fails("api.latest", renovate)), "", at(modulePath, `{`+summarized+`}`)},
	{"no dates", only(lacks("api.v2", renovate, dependabot)), "", gone(datesAt)},
	{"dates of other versions", only(fails("api.v2", renovate, dependabot)), "", at(datesAt, dated("1.0.0", "1.1.0", "1.2.0"))},
	{"dates of some versions", only(warns("api.v2", renovate, dependabot)), "", at(datesAt, dated("1.0.0"))},
	{"versions without dates", only(warns("api.v2", renovate, dependabot)), "",
		at(datesAt, strings.ReplaceAll(dated("1.0.0", "1.1.0", "2.0.0-beta"), "published-at", "created-at"))},
	{"dates of nothing", only(fails("api.v2", renovate, dependabot)), "", at(datesAt, `{"data": {}}`)},
	{"trouble with dates", only(fails("api.v2", renovate, dependabot)), "", answers(datesAt, http.StatusBadGateway)},
	{"no second API", only(lacks("api.docs", renovate)), tofuHost, gone(docsAt)},
	{"another second API", only(fails("api.docs", renovate)), tofuHost, at(docsAt, `{"versions": [{"id": "v3.0.0"}]}`)},
	{"no list", only(lacks("api.list", assistant)), "", gone("/v1/modules")},
	{"an empty list", only(warns("api.list", assistant)), "", at("/v1/modules", `{"modules": []}`)},
	{"offsets that are strings", only(fails("api.list", assistant)), "", at("/v1/modules", strings.ReplaceAll(listed, `: 15`, `: "15"`))},
	{"pages without an end", only(warns("api.pages", assistant)), "", at("/v1/modules", strings.ReplaceAll(listed, `"current_offset": 0`, `"next_offset": 15`))},
	{"a page that is its own next one", only(warns("api.pages", assistant)), "", func(r registry) {
		r["/v1/modules"] = func(w http.ResponseWriter, q *http.Request) {
			if q.FormValue("offset") == "0" {
				says(strings.ReplaceAll(listed, `"current_offset": 0`, `"next_offset": 15`))(w, q)
				return
			}
			says(`{"meta": {"next_offset": 15}, "modules": [{"id": "acme/other/aws/1.0.0", "published_at": "2023-01-02T03:04:05Z"}]}`)(w, q)
		}
	}},
	{"a search for the quotes", only(warns("api.search", assistant)), "", func(r registry) {
		r["/v1/modules/search"] = func(w http.ResponseWriter, q *http.Request) {
			if strings.Contains(q.FormValue("q"), "'") {
				says(`{"modules": []}`)(w, q)
				return
			}
			says(listed)(w, q)
		}
	}},
	{"a search for something else", only(warns("api.search", assistant)), "", at("/v1/modules/search", strings.ReplaceAll(listed, `"name": "network"`, `"name": "vpc"`))},
}

// A discovery document may be too large for some clients. Almost every rule parses the document again, which takes a
// minute with the race detector, so this test runs only the rules about discovery.
func TestLargeDiscovery(t *testing.T) {
	t.Parallel()
	r, run := good(), runDiscovery
	r[doc] = says(`{"x": "` + strings.Repeat("x", 1<<20) + `",` + discovered[1:])
	if rig.Long() {
		run = Run
	}
	found, said := verdictsOf(t, run, r, network, "")
	compare(t, only(fails("discovery.size", bySvchost...)), found, said)
}

// runDiscovery is like Run with the rules about discovery only.
func runDiscovery(ctx context.Context, o Options, each func(Finding) error) error {
	s := newSession(o, o.Modules[0])
	for i := range clients {
		v := &visit{session: s, ctx: ctx, client: &clients[i]}
		for _, r := range rules {
			if strings.HasPrefix(r.id, "discovery.") && (r.files[v.name] != "" || r.files[v.like] != "") {
				if err := each(Finding{Client: v.name, Rule: r.id, Result: r.run(v)}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
