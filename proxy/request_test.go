package proxy

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

var sites = Upstreams{
	Hosts:      map[string]bool{"registry.terraform.io": true, "corp.example:8443": true, "xn--bcher-kva.example": true},
	Default:    "registry.terraform.io",
	Namespaces: map[string]string{"corp": "corp.example:8443"},
}

// parsed is what a request for path is taken for, or the status of its refusal.
func parsed(t *testing.T, u *Upstreams, host, path string) string {
	t.Helper()
	target, err := url.ParseRequestURI(path)
	if err != nil {
		return "not HTTP"
	}
	parse := u.parse
	if strings.Contains(path, "/v2/modules/") {
		parse = u.parseHistory
	}
	q, err := parse(host, target.EscapedPath())
	var bad *requestError
	switch {
	case errors.As(err, &bad):
		return http.StatusText(bad.status)
	case err != nil:
		t.Fatalf("%s: error %v is no requestError", path, err)
	}
	return string(q.kind) + " " + q.Address.String() + " " + q.FullVersion()
}

func TestParse(t *testing.T) {
	const vpc = "registry.terraform.io/terraform-aws-modules/vpc/aws"
	for _, c := range []struct{ host, path, want string }{
		// By path.
		{"", "/registry.terraform.io/v1/modules/terraform-aws-modules/vpc/aws/versions", "versions " + vpc + " "},
		{"", "/Registry.Terraform.io:443/v1/modules/terraform-aws-modules/vpc/aws/versions", "versions " + vpc + " "},
		{"", "/b%C3%BCcher.example/v1/modules/a/b/c/versions", "versions xn--bcher-kva.example/a/b/c "},
		{"", "/corp.example:8443/v1/modules/a/b/c/versions", "versions corp.example:8443/a/b/c "},
		{"", "/corp.example/v1/modules/a/b/c/versions", "Forbidden"},
		{"", "/other.example/v1/modules/a/b/c/versions", "Forbidden"},
		{"", "/not%20a%20host/v1/modules/a/b/c/versions", "Bad Request"},
		{"", "/x/registry.terraform.io/v1/modules/a/b/c/versions", "Not Found"},

		// By our own hostname: a route, or the default.
		{"modules.corp.example", "/v1/modules/terraform-aws-modules/vpc/aws/versions", "versions " + vpc + " "},
		{"modules.corp.example", "/v1/modules/corp/vpc/aws/versions", "versions corp.example:8443/corp/vpc/aws "},
		{"modules.corp.example", "/v1/modules/Corp/vpc/aws/versions", "versions corp.example:8443/Corp/vpc/aws "},
		{"modules.corp.example", "/v1/modules/corp-evil/vpc/aws/versions", "versions registry.terraform.io/corp-evil/vpc/aws "},

		// By an upstream's hostname: the route of our own does not count.
		{"registry.terraform.io", "/v1/modules/corp/vpc/aws/versions", "versions registry.terraform.io/corp/vpc/aws "},
		{"registry.terraform.io:443", "/v1/modules/a/b/c/versions", "versions registry.terraform.io/a/b/c "},
		{"corp.example:8443", "/v1/modules/a/b/c/versions", "versions corp.example:8443/a/b/c "},

		// Spellings of a version.
		{"", "/v1/modules/a/b/c/1.2.3/download", "download registry.terraform.io/a/b/c 1.2.3"},
		{"", "/v1/modules/a/b/c/v1.2.3/download", "download registry.terraform.io/a/b/c 1.2.3"},
		{"", "/v1/modules/a/b/c/1.2/download", "download registry.terraform.io/a/b/c 1.2.0"},
		{"", "/v1/modules/a/b/c/1.2.3+x/download", "download registry.terraform.io/a/b/c 1.2.3+x"},
		{"", "/v1/modules/a/b/c/1.2.3%2Bx/download", "download registry.terraform.io/a/b/c 1.2.3+x"},
		{"", "/v1/modules/a/b/c/download", "download registry.terraform.io/a/b/c "},
		{"", "/v1/modules/a/b/c/latest/download", "download registry.terraform.io/a/b/c "},
		{"", "/v1/modules/a/b/c/newest/download", "Bad Request"},

		// Packages have one path.
		{"", "/registry.terraform.io~/v1/modules/a/b/c/1.0.0/b-c-1.0.0.tar.gz", "package registry.terraform.io/a/b/c 1.0.0"},
		{"", "/v1/modules/a/b/c/1.0.0/b-c-1.0.0.tar.gz", "Not Found"},

		// What the registry's own API has besides.
		{"", "/v1/modules/a/b/aws", "details registry.terraform.io/a/b/aws "},
		{"", "/v1/modules/a/b/aws/v1.2", "details registry.terraform.io/a/b/aws 1.2.0"},
		{"", "/v1/modules/a/b/aws/latest", "details registry.terraform.io/a/b/aws "},
		{"", "/v1/modules/a/b/aws/newest", "Bad Request"},
		{"", "/v1/modules/a/b/aws/downloads/summary", "downloads registry.terraform.io/a/b/aws "},
		{"", "/v1/modules/a/b/aws/1.0.0/summary", "Not Found"},
		{"", "/v1/modules/a/downloads/summary", "details registry.terraform.io/a/downloads/summary "},
		{"", "/corp.example:8443/v1/modules/a/b/aws/1.0.0", "details corp.example:8443/a/b/aws 1.0.0"},
		{"corp.example:8443", "/v1/modules/a/b/aws", "details corp.example:8443/a/b/aws "},
		{"", "/v2/modules/corp/b/aws", "history corp.example:8443/corp/b/aws "},
		{"", "/registry.terraform.io/v2/modules/corp/b/aws", "history registry.terraform.io/corp/b/aws "},
		{"", "/other.example/v2/modules/a/b/aws", "Forbidden"},
		{"", "/x/y/v2/modules/a/b/aws", "Not Found"},
		{"", "/v2/modules/a/b", "Not Found"},
		{"", "/v2/modules/a/b/AWS", "Bad Request"},
		{"", "/v2/modules/a/%2e%2e/aws", "Bad Request"},
		{"", "/v1/modules", "list registry.terraform.io// "},
		{"", "/v1/modules/", "list registry.terraform.io// "},
		{"", "/corp.example:8443/v1/modules", "list corp.example:8443// "},
		{"", "/v1/modules/corp", "list corp.example:8443/corp/ "},
		{"", "/v1/modules/a/b", "list registry.terraform.io/a/b "},
		{"", "/v1/modules/search", "search registry.terraform.io// "},
		{"", "/v1/modules/search/b", "list registry.terraform.io/search/b "},
		{"", "/v1/modules/search/b/aws", "details registry.terraform.io/search/b/aws "},
		{"", "/v1/modules/a/", "Bad Request"},
		{"", "/v1/modules/%2e%2e", "Bad Request"},
		{"", "/v1/modules/..", "Bad Request"},
		{"", "/v1/modules/a/b%2fc", "Bad Request"},
		{"", "/v1/modules/%00", "Bad Request"},

		// Oddities.
		{"", "/v1/modules/..%2f..%2fetc/n/aws/versions", "Bad Request"},
		{"", "/v1/modules/../n/aws/versions", "Bad Request"},
		{"", "/v1/modules/%2e%2e/n/aws/versions", "Bad Request"},
		{"", "/v1/modules/a%00b/n/aws/versions", "Bad Request"},
		{"", "/v1/modules/a%0ab/n/aws/versions", "Bad Request"},
		{"", "/v1/modules/a%2fn/x/aws/versions", "Bad Request"},
		{"", "/v1/modules/a;b/n/aws/versions", "Bad Request"},
		{"", "/v1/modules/a\\b/n/aws/versions", "Bad Request"},
		{"", "/v1/modules/%EF%BD%81/n/aws/versions", "Bad Request"},
		{"", "/v1/modules/%c0%ae%c0%ae/n/aws/versions", "Bad Request"},
		{"", "/v1/modules/a//n/aws/versions", "Bad Request"},
		{"", "//v1/modules/a/n/aws/versions", "Bad Request"},
		{"", "/v1/modules//a/n/aws/versions", "Bad Request"},
		{"", "/v1/modules/a/n/aws/versions/", "Not Found"},
		{"", "/v1/modules/a/n/AWS/versions", "Bad Request"},
		{"", "/v1/modules/" + strings.Repeat("a", 10_000) + "/n/aws/versions", "Bad Request"},
		{"", "/v1/modules/a/n/aws/1.0.0/destroy", "Not Found"},
		{"", "http://evil.example/v1/modules/a/n/aws/versions", "versions registry.terraform.io/a/n/aws "}, // absolute-form
	} {
		if got := parsed(t, &sites, c.host, c.path); got != c.want {
			t.Errorf("%q at %q: %q; want %q", c.path, c.host, got, c.want)
		}
	}
	any := Upstreams{Any: true}
	if got, want := parsed(t, &any, "", "/other.example/v1/modules/a/b/c/versions"), "versions other.example/a/b/c "; got != want {
		t.Errorf("any upstream: %q; want %q", got, want)
	}
	if got := parsed(t, &any, "", "/v1/modules/a/b/c/versions"); got != "Not Found" {
		t.Errorf("any upstream and no default: %q", got)
	}
}

// A module of a path that is accepted has been through the grammar.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"/registry.terraform.io~/v1/modules/a/b/c/1.0.0/b-c-1.0.0.tar.gz", "/v1/modules/a/b/c/%31.0/download", "/b%C3%BCcher.example/v1/modules/a/b/c/versions", "/v1/modules/a", "/v2/modules/a/b/c"} {
		f.Add("corp.example:8443", s)
	}
	f.Fuzz(func(t *testing.T, host, path string) {
		target, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		for _, parse := range []func(_, _ string) (request, error){sites.parse, sites.parseHistory} {
			q, err := parse(host, target.EscapedPath())
			if err != nil {
				continue
			}
			m := q.Address
			if q.isList() {
				m = modproxy.Address{Namespace: cmp.Or(m.Namespace, "x"), Name: cmp.Or(m.Name, "x"), System: "x"}
			}
			if err := m.Check(); err != nil || !sites.Hosts[q.Host] {
				t.Fatalf("%q at %q: %+v, %v", path, host, q, err)
			}
		}
	})
}

// A query that is accepted is within all bounds, and names nothing but what the grammar allows.
func FuzzParseQuery(f *testing.F) {
	for _, s := range []string{"q='net'&offset=0", "limit=1000&provider=AWS&verified=true", "namespace=a&q=%22x%22", "offset=-1", "limit=%zz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, q := range []request{{kind: kindSearch}, {kind: kindList}} {
			list, err := parseQuery(q, raw)
			if err != nil {
				continue
			}
			named := modproxy.Address{Namespace: cmp.Or(list.Namespace, "x"), Name: cmp.Or(list.Name, "x"), System: cmp.Or(list.System, "x")}
			if named.Check() != nil || list.Limit < 1 || list.Limit > maxLimit || list.Offset < 0 || len(list.Search) > maxSearch ||
				strings.ContainsAny(list.Search, `"'`) {
				t.Fatalf("%q: %+v", raw, list)
			}
		}
	})
}
