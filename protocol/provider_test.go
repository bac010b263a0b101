package protocol_test

import (
	"strings"
	"testing"

	"github.com/modproxy/modproxy/protocol"
)

var registries = &protocol.Upstreams{
	Hosts:   map[string]bool{"registry.acme.example": true, "a.example:8443": true, "localhost:8080": true, "xn--bcher-kva.example": true},
	Default: "registry.acme.example",
}

// readTrimmed is read without the blank behind an address that has no version.
func readTrimmed(t testing.TB, u *protocol.Upstreams, requestHost, path string) string {
	t.Helper()
	return strings.TrimSpace(read(t, u, requestHost, path))
}

func TestParseProvider(t *testing.T) {
	const (
		acme = "/registry.acme.example/v1/providers/acme/toy"
		toy  = "registry.acme.example/acme/toy"
		one  = toy + " 1.0.0"
		at   = one + "+modproxy.platform.linux-arm64"
		file = acme + "/1.0.0/linux_arm64/terraform-provider-toy_1.0.0_linux_arm64.zip"
	)
	for path, want := range map[string]string{
		acme + "/versions": "provider_versions " + toy,
		"/Registry.acme.example:443/v1/providers/ACME/Toy/versions": "provider_versions " + toy,
		"/a.example:8443/v1/providers/acme/toy/versions":            "provider_versions a.example:8443/acme/toy",
		"/localhost:8080/v1/providers/acme/toy/versions":            "provider_versions localhost:8080/acme/toy",
		"/b%C3%BCcher.example/v1/providers/acme/toy/versions":       "provider_versions xn--bcher-kva.example/acme/toy",
		"/xn--bcher-kva.example/v1/providers/acme/toy/versions":     "provider_versions xn--bcher-kva.example/acme/toy",
		acme + "/1.0.0/download/linux/arm64":                        "provider_download " + at,
		acme + "/1.0.0-rc.1+x/download/linux/arm64":                 "provider_download " + toy + " 1.0.0-rc.1+x.modproxy.platform.linux-arm64",
		acme:             "details " + toy,
		acme + "/latest": "details " + toy,
		acme + "/1.0.0":  "details " + one,
		acme + "/v1.0":   "details " + one,
		acme + "/1.0.0/": "Not Found",
		acme + "/one":    "Bad Request",
		"/registry.acme.example/v1/providers/acme":                      "Not Found",
		acme + "/1.0.0/SHA256SUMS":                                      "provider_sums " + one,
		acme + "/1.0.0/SHA256SUMS.sig":                                  "provider_signature " + one,
		file:                                                            "provider_package " + at,
		strings.Replace(file, "toy", "%74oy", 1):                        "provider_package " + at,
		strings.Replace(file, "acme/toy", "ACME/toy", 1):                "Not Found",
		strings.Replace(file, "_1.0.0", "_1.0.1", 1):                    "Not Found",
		strings.Replace(file, "linux_arm64/", "linux_amd64/", 1):        "Not Found",
		strings.Replace(file, "linux_arm64/", "linux/", 1):              "Bad Request",
		strings.TrimPrefix(file, "/registry.acme.example"):              "Not Found",
		acme + "/1.0/SHA256SUMS":                                        "Not Found",
		acme + "/1.0.0+modproxy.platform.linux-arm64/SHA256SUMS":        "Not Found",
		acme + "/0.0.0+modproxy.keys/download/linux/arm64":              "Not Found",
		"/registry.acme.example/v1/providers/-/toy/versions":            "Not Found",
		"/v1/providers/acme/toy/versions":                               "Not Found",
		acme + "//SHA256SUMS":                                           "Bad Request",
		"//v1/providers/acme/toy/versions":                              "Bad Request",
		"/x/registry.acme.example/v1/providers/acme/toy/versions":       "Bad Request",
		"/registry.other.example/v1/providers/acme/toy/versions":        "Conflict",
		acme + "/versions/":                                             "Not Found",
		acme + "/versions?x":                                            "Bad Request",
		"/registry.acme.example/v1/providers/acme/../versions":          "Bad Request",
		"/registry.acme.example/v1/providers/acme/a%2fb/versions":       "Bad Request",
		"/registry.acme.example/v1/providers/acme/%zz/versions":         "Bad Request",
		"/registry.acme.example/v1/providers/acme//versions":            "Bad Request",
		"/registry.acme.example/v1/providers/acme/terraform-x/versions": "Bad Request",
		acme + "/1.0.0/download/linux/":                                 "Bad Request",
		acme + "/1.0.0/download/linux_x/arm64":                          "Bad Request",
		acme + "/-/download/linux/arm64":                                "Bad Request",
		acme + "/18446744073709551616.0.0/download/linux/arm64":         "Bad Request",
	} {
		if got := readTrimmed(t, registries, "proxy.example", path); got != want {
			t.Errorf("%s: %s; want %s", path, got, want)
		}
	}
	if got := readTrimmed(t, registries, "registry.acme.example", "/v1/providers/acme/toy/versions"); got != "provider_versions "+toy {
		t.Errorf("to the registry's own name: %s", got)
	}
	anyone := &protocol.Upstreams{Any: true}
	if got := readTrimmed(t, anyone, "", "/terraform.io/v1/providers/builtin/terraform/versions"); got != "Not Found" {
		t.Errorf("what is built in: %s", got)
	}
}

func TestParseMirror(t *testing.T) {
	const toy = "registry.acme.example/acme/toy"
	for path, want := range map[string]string{
		"/-/mirror/registry.acme.example/acme/toy/index.json":               "mirror_index " + toy,
		"/-/mirror/REGISTRY.acme.example/Acme/TOY/index.json":               "mirror_index " + toy,
		"/-/mirror/registry.acme.example/acme/toy/1.0.0.json":               "mirror_version " + toy + " 1.0.0",
		"/-/mirror/registry.acme.example/acme/toy/1.0.0-rc1+x.json":         "mirror_version " + toy + " 1.0.0-rc1+x",
		"/-/mirror/xn--bcher-kva.example/acme/toy/index.json":               "mirror_index xn--bcher-kva.example/acme/toy",
		"/-/mirror/registry.acme.example/acme/toy/1.0.0+modproxy.keys.json": "Not Found",
		"/-/mirror/registry.acme.example/acme/toy/x.json":                   "Bad Request",
		"/-/mirror/registry.acme.example/acme/toy/.json":                    "Bad Request",
		"/-/mirror/registry.acme.example/acme/toy/index.txt":                "Not Found",
		"/-/mirror/registry.acme.example/acme/toy":                          "Not Found",
		"/-/mirror/registry.acme.example/-/toy/index.json":                  "Not Found",
		"/-/mirror/registry.other.example/acme/toy/index.json":              "Not Found",
		"/-/mirror//acme/toy/index.json":                                    "Bad Request",
		"/-/mirror/":                                                        "Not Found",
		"/-/mirror/registry.acme.example/acme/toy/%zz.json":                 "Bad Request",
	} {
		if got := readTrimmed(t, registries, "proxy.example", path); got != want {
			t.Errorf("%s: %s; want %s", path, got, want)
		}
	}
}

func TestParseBesideProviders(t *testing.T) {
	const toy = "registry.acme.example/acme/toy"
	for _, c := range []struct{ host, path, want string }{
		{"proxy.example", "/registry.acme.example/v2/providers/ACME/toy", "history " + toy},
		{"registry.acme.example", "/v2/providers/acme/toy", "history " + toy},
		{"registry.acme.example", "/a.example:8443/v2/providers/acme/toy", "history a.example:8443/acme/toy"},
		{"registry.acme.example", "/v2/provider-versions/acme/toy/v1.0", "provider_version " + toy + " 1.0.0"},
		{"registry.acme.example", "/v2/provider-versions/acme%2Ftoy%2F1.0.0", "provider_version " + toy + " 1.0.0"},
		{"registry.acme.example", "/v2/provider-versions/40", "Not Found"},
		{"registry.acme.example", "/v2/provider-docs", "provider_documents registry.acme.example//"},
		{"proxy.example", "/registry.acme.example/v2/provider-docs/101", "provider_document registry.acme.example//"},
		{"registry.acme.example", "/v2/provider-docs/", "Not Found"},
		{"registry.acme.example", "/v2/provider-docs/101/x", "Not Found"},
		{"proxy.example", "/v2/providers/acme/toy", "Not Found"}, // no provider has this name
		{"proxy.example", "/registry.acme.example/v2/providers/acme/toy/", "Not Found"},
		{"proxy.example", "/registry.acme.example/v2/providers/acme", "Not Found"},
		{"proxy.example", "/registry.acme.example/v2/providers/acme/to--y", "Bad Request"},
		{"proxy.example", "/registry.acme.example/v2/providers/acme/%zz", "Bad Request"},
		{"proxy.example", "/registry.none.example/v2/providers/acme/toy", "Forbidden"},
		{"proxy.example", "/x/registry.acme.example/v2/providers/acme/toy", "Bad Request"},
	} {
		if got := readTrimmed(t, registries, c.host, c.path); got != c.want {
			t.Errorf("%s %s: %s; want %s", c.host, c.path, got, c.want)
		}
	}
	u := &protocol.Upstreams{Docs: map[string]string{"api.acme.example": "registry.acme.example"}}
	for _, c := range []struct{ host, path, want string }{
		{"api.acme.example", "/registry/docs/providers/ACME/toy/index.json", "docs " + toy},
		{"api.acme.example", "/registry/docs/providers/acme/toy/v1.0.0/index.json", "docs " + toy + " 1.0.0"},
		{"api.acme.example", "/registry/docs/providers/acme/toy/v1.0.0/x/index.json", "Not Found"},
		{"api.acme.example", "/registry/docs/providers/acme/toy/x/index.json", "Bad Request"},
		{"registry.acme.example", "/registry/docs/providers/acme/toy/index.json", "Not Found"},
	} {
		if got := readTrimmed(t, u, c.host, c.path); got != c.want {
			t.Errorf("%s %s: %s; want %s", c.host, c.path, got, c.want)
		}
	}
}

// A path of a provider is read in one spelling, for any registry, and files have one path.
func FuzzParseProvider(f *testing.F) {
	f.Add("/registry.acme.example/v1/providers/acme/toy/1.0.0/download/linux/arm64")
	f.Add("/registry.acme.example/v1/providers/acme/toy/1.0.0/linux_arm64/terraform-provider-toy_1.0.0_linux_arm64.zip")
	f.Add("/registry.acme.example/v1/providers/acme/toy/1.0.0-a+b/SHA256SUMS.sig")
	f.Add("/-/mirror/registry.acme.example/acme/toy/1.0.0.json")
	u := &protocol.Upstreams{Any: true}
	f.Fuzz(func(t *testing.T, path string) {
		q, err := u.Parse("proxy.example", path)
		if err != nil || !protocol.IsAboutProviders(path) || !q.IsProvider() {
			return
		}
		if err := q.CheckProvider(); err != nil || q.Host == "" {
			t.Errorf("%q: %s, %v", path, q.Address, err)
		}
		lists := q.Kind == protocol.KindProviderVersions || q.Kind == protocol.KindMirrorIndex
		if latest := q.Kind == protocol.KindDetails; !latest && lists != (q.Version == "") {
			t.Errorf("%q: %s is for version %q", path, q.Kind, q.Version)
		}
		if !q.IsListed() && !q.IsArchive() {
			t.Errorf("%q: is for a variant that no registry has: %s", path, q.FullVersion())
		}
		if again, err := u.Parse("", q.Path()); err != nil || again != q {
			t.Errorf("%q: %v is read as %v, %v", path, q, again, err)
		}
	})
}
