package protocol_test

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/protocol"
)

var sites = &protocol.Upstreams{
	Hosts:      map[string]bool{"registry.terraform.io": true, "corp.example:8443": true, "xn--bcher-kva.example": true},
	Default:    "registry.terraform.io",
	Namespaces: map[string]string{"corp": "corp.example:8443"},
}

// read returns what a path is read as, or the status of its error.
func read(t testing.TB, u *protocol.Upstreams, requestHost, path string) string {
	t.Helper()
	q, err := u.Parse(requestHost, path)
	if bad := (*protocol.Error)(nil); errors.As(err, &bad) {
		return http.StatusText(bad.Status)
	} else if err != nil {
		t.Fatalf("%s: error %v is not an Error", path, err)
	}
	return string(q.Kind) + " " + q.Address.String() + " " + q.FullVersion()
}

// parsed is read for the target of a request.
func parsed(t *testing.T, u *protocol.Upstreams, host, path string) string {
	t.Helper()
	target, err := url.ParseRequestURI(path)
	if err != nil {
		return "not HTTP"
	}
	return read(t, u, host, target.EscapedPath())
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
		if got := parsed(t, sites, c.host, c.path); got != c.want {
			t.Errorf("%q at %q: %q; want %q", c.path, c.host, got, c.want)
		}
	}
	any := &protocol.Upstreams{Any: true}
	if got, want := parsed(t, any, "", "/other.example/v1/modules/a/b/c/versions"), "versions other.example/a/b/c "; got != want {
		t.Errorf("any upstream: %q; want %q", got, want)
	}
	if got := parsed(t, any, "", "/v1/modules/a/b/c/versions"); got != "Not Found" {
		t.Errorf("any upstream and no default: %q", got)
	}
}

// Parse returns only what the clients' grammar accepts, for a registry that is allowed. It reads the path of a Request as the
// same Request.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"/registry.terraform.io~/v1/modules/a/b/c/1.0.0/b-c-1.0.0.tar.gz", "/v1/modules/a/b/c/%31.0/download",
		"/b%C3%BCcher.example/v1/modules/a/b/c/versions", "/v1/modules/a", "/v2/modules/a/b/c",
		"/registry.terraform.io/v1/providers/a/b/1.0.0/download/linux/arm64", "/registry.terraform.io/v1/providers/a/b/1.0.0-a+b/SHA256SUMS.sig",
		"/registry.terraform.io/v1/providers/a/b/1.0.0/linux_arm64/terraform-provider-b_1.0.0_linux_arm64.zip",
		"/-/mirror/registry.terraform.io/a/b/1.0.0.json", "/registry.terraform.io/v2/provider-docs/%2f",
		"/registry/docs/providers/a/b/v1.0.0/c%2fd/e.md",
	} {
		f.Add("corp.example:8443", s)
	}
	f.Fuzz(func(t *testing.T, host, path string) {
		target, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		u := *sites
		u.Docs = map[string]string{"docs.example": "registry.terraform.io"}
		if strings.HasPrefix(path, "/registry/docs/") {
			host = "docs.example"
		}
		q, err := u.Parse(host, target.EscapedPath())
		if err != nil {
			return
		}
		m := q.Address
		if q.IsList() {
			m = modproxy.Address{Namespace: cmp.Or(m.Namespace, "x"), Name: cmp.Or(m.Name, "x"), System: "x"}
		}
		if !q.IsOfDocuments() && m.CheckAddress() != nil || !u.Hosts[q.Host] {
			t.Fatalf("%q at %q: %+v", path, host, q)
		}
		if m.IsProvider() && !q.IsListed() && !q.IsArchive() {
			t.Fatalf("%q: is for a variant that no registry has: %s", path, q.FullVersion())
		}
		q.ByNamespace = false // its path names the registry
		if again, err := u.Parse("docs.example", q.Path()); err != nil || again != q {
			t.Fatalf("%q is %+v, whose path %q is %+v, %v", path, q, q.Path(), again, err)
		}
	})
}

// A query that is accepted is within all bounds, and names nothing but what the grammar allows.
func FuzzParseQuery(f *testing.F) {
	for _, s := range []string{"q='net'&offset=0", "limit=1000&provider=AWS&verified=true", "namespace=a&q=%22x%22", "offset=-1", "limit=%zz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, q := range []protocol.Request{{Kind: protocol.KindSearch}, {Kind: protocol.KindList}} {
			list, err := q.ListQuery(raw)
			if err != nil {
				continue
			}
			named := modproxy.Address{Namespace: cmp.Or(list.Namespace, "x"), Name: cmp.Or(list.Name, "x"), System: cmp.Or(list.System, "x")}
			if named.Check() != nil || list.Limit < 1 || list.Limit > 100 || list.Offset < 0 || len(list.Search) > 256 ||
				strings.ContainsAny(list.Search, `"'`) {
				t.Fatalf("%q: %+v", raw, list)
			}
			list.Limit, list.Offset = 7, 14
			if again, err := q.ListQuery(protocol.PageQuery(raw, 7, 14)); err != nil || again != list {
				t.Fatalf("%q: another page is %+v, %v; want %+v", raw, again, err, list)
			}
		}
	})
}
