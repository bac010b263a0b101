package proxy

import "testing"

func TestParseProvider(t *testing.T) {
	u := &Upstreams{Hosts: map[string]bool{"registry.acme.example": true, "a.example:8443": true}, Default: "registry.acme.example"}
	for path, want := range map[string]string{
		"/registry.acme.example/v1/providers/acme/toy/versions":                          "registry.acme.example acme/toy/versions",
		"/REGISTRY.acme.example/v1/providers/acme/toy/versions":                          "registry.acme.example acme/toy/versions",
		"/a.example:8443/v1/providers/acme/toy/versions":                                 "a.example:8443 acme/toy/versions",
		"/registry.acme.example/v1/providers/-/toy/versions":                             "registry.acme.example -/toy/versions",
		"/registry.acme.example/v1/providers/b%C3%BCcher/toy/versions":                   "registry.acme.example b%C3%BCcher/toy/versions",
		"/registry.acme.example/v1/providers/acme/toy/1.0.0-rc.1+x/download/linux/arm64": "registry.acme.example acme/toy/1.0.0-rc.1+x/download/linux/arm64",
		"/v1/providers/acme/toy/versions":                                                "",
		"//v1/providers/acme/toy/versions":                                               "",
		"/x/registry.acme.example/v1/providers/acme/toy/versions":                        "",
		"/registry.acme.examplev1/providers/acme/toy/versions":                           "",
		"/registry.other.example/v1/providers/acme/toy/versions":                         "",
		"/registry.acme.example/v1/providers/acme/toy":                                   "",
		"/registry.acme.example/v1/providers/acme/../versions":                           "",
		"/registry.acme.example/v1/providers/acme/a%2fb/versions":                        "",
		"/registry.acme.example/v1/providers/acme/https:/versions":                       "",
		"/registry.acme.example/v1/providers/acme/%zz/versions":                          "",
		"/registry.acme.example/v1/providers/acme//versions":                             "",
		"/registry.acme.example/v1/providers/acme/toy/1.0.0/download/linux/":             "",
		"/registry.acme.example/v1/providers/acme/toy/-/download/linux/arm64":            "",
		"/registry.acme.example/v1/providers/acme/toy/versions?x":                        "",
	} {
		host, rest, err := u.parseProvider("proxy.example", path)
		switch {
		case want == "" && err == nil:
			t.Errorf("%s: %s %s; want an error", path, host, rest)
		case want != "" && (err != nil || host+" "+rest != want):
			t.Errorf("%s: %s %s, %v; want %s", path, host, rest, err, want)
		}
	}
	if host, rest, err := u.parseProvider("registry.acme.example", "/v1/providers/acme/toy/versions"); err != nil || host != "registry.acme.example" || rest != "acme/toy/versions" {
		t.Errorf("to the registry's own name: %s %s, %v", host, rest, err)
	}
}

func FuzzParseProvider(f *testing.F) {
	f.Add("/registry.acme.example/v1/providers/acme/toy/1.0.0/download/linux/arm64")
	u := &Upstreams{Any: true}
	f.Fuzz(func(t *testing.T, path string) {
		host, below, err := u.parseProvider("proxy.example", path)
		if err != nil {
			return
		}
		sameHost, same, err := u.parseProvider("proxy.example", "/"+host+"/v1/providers/"+below)
		if err != nil || sameHost != host || same != below {
			t.Errorf("%q: %s %s is read as %s %s, %v", path, host, below, sameHost, same, err)
		}
	})
}
