//go:build linux

package hostile_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modproxy/modproxy/test/registrytest"
)

// from returns the name in the one file of a package of the fixtures.
func from(t testing.TB, files map[string]file) string {
	t.Helper()
	_, value, _ := strings.Cut(files["main.tf"].data, `value = "`)
	value, _, _ = strings.Cut(value, `"`)
	return value
}

// For any spelling, a request is refused, or answered with the one package that it means.
func TestSpellingsHaveOneIdentity(t *testing.T) {
	p := startOwn(t, ordinary)
	for _, test := range []struct{ host, module, version, want string }{ // an empty want means refused
		{"up-a.test", "same/network/aws", "1.0.0", "up-a"},
		{"UP-A.TEST", "same/network/aws", "1.0.0", "up-a"},
		{"up-a.test:443", "same/network/aws", "1.0.0", "up-a"},
		{"up-a%2Etest", "same/network/aws", "1.0.0", "up-a"},
		{"%75p-a.test", "same/network/aws", "1.0.0", "up-a"},
		{"%ef%bd%95p-a.test", "same/network/aws", "1.0.0", "up-a"}, // a full-width u is a u to IDNA
		{"up-a.test.", "same/network/aws", "1.0.0", ""},
		{"up-a.test:0443", "same/network/aws", "1.0.0", "up-a"},
		{"up-a.test:", "same/network/aws", "1.0.0", ""},
		{"up-a.test:80", "same/network/aws", "1.0.0", ""},
		{"up%e2%80%90a.test", "same/network/aws", "1.0.0", ""}, // another hyphen
		{"xn--up-a.test", "same/network/aws", "1.0.0", ""},
		{"up-a.test", "Same/network/aws", "1.0.0", ""},
		{"up-a.test", "same/Network/aws", "1.0.0", ""},
		{"up-a.test", "same/network/AWS", "1.0.0", ""},
		{"up-a.test", "%73ame/network/aws", "1.0.0", "up-a"},
		{"up-a.test", "Mixed/Case/aws", "1.0.0", "Mixed"},
		{"up-a.test", "mixed/case/aws", "1.0.0", ""}, // content differs from the first recorded spelling
		{"up-a.test", "mixed/Case/aws", "1.0.0", ""},
		{"up-a.test", "a/b-c/aws", "1.0.0", "a b-c"},
		{"up-a.test", "a-b/c/aws", "1.0.0", "a-b c"},
		{"up-a.test", "a_b/c/aws", "1.0.0", "a_b c"},
		{"up-a.test", "a%2Fb/c/aws", "1.0.0", ""},
		{"up-a.test", "many/versions/aws", "1.0.0", "1.0.0"},
		{"up-a.test", "many/versions/aws", "v1.0.0", "1.0.0"},
		{"up-a.test", "many/versions/aws", "1.0", "1.0.0"},
		{"up-a.test", "many/versions/aws", "01.0.0", "1.0.0"},
		{"up-a.test", "many/versions/aws", "1.0.0+b1", "b1"},
		{"up-a.test", "many/versions/aws", "1.0.0%2Bb1", "b1"},
		{"up-a.test", "many/versions/aws", "1.0.0+b2", "b2"},
		{"up-a.test", "many/versions/aws", "1.0.0-b1", "pre"},
		{"up-a.test", "many/versions/aws", "1.0.0b1", "pre"},
		{"up-a.test", "many/versions/aws", "1.1", "1.1"},
		{"up-a.test", "many/versions/aws", "1.1.0", "1.1"},
		{"up-a.test", "many/versions/aws", "1.1.0.0", ""},
		{"up-a.test", "many/versions/aws", "V1.0.0", ""},
		{"up-a.test", "many/versions/aws", "vv1.0.0", ""},
		{"up-a.test", "many/versions/aws", "1.0.0+B1", ""},
		{"up-a.test", "many/versions/aws", "1.0.0%20", ""},
		{"up-a.test", "many/versions/aws", "-1.0.0", ""},
		{"up-a.test", "many/versions/aws", "=1.0.0", ""},
		{"up-a.test", "many/versions/aws", "~%3E1.0.0", ""},
	} {
		p.run(strings.ReplaceAll(test.host+" "+test.module+" "+test.version, "/", "_"), func(t *testing.T) {
			at := "/" + test.host + "/v1/modules/" + test.module + "/" + test.version + "/download"
			a := p.ask(http.MethodGet, at)
			if a.Status != http.StatusNoContent {
				if test.want != "" || a.Status < 400 {
					t.Fatalf("%d: %s; want %q", a.Status, a.Said(), test.want)
				}
				return
			}
			to := strings.TrimPrefix(a.Header.Get("X-Terraform-Get"), p.url)
			a = p.ask(http.MethodGet, to)
			if a.Status != http.StatusOK {
				if test.want != "" {
					t.Fatalf("%d: %s; want %q", a.Status, a.Said(), test.want)
				}
				return
			}
			if got := from(t, unpack(t, a.Body)); got != test.want {
				t.Errorf("got the package of %q; want that of %q", got, test.want)
			}
		})
	}
	// Each package has one path.
	seen := map[string]string{}
	for path, digest := range p.packages {
		if other, ok := seen[digest]; ok && !strings.Contains(path, "many") {
			t.Errorf("one package at two paths: %s and %s", path, other)
		}
		seen[digest] = path
	}
}

// Modules with the same coordinates at several registries are different modules, also while one of the registries is unavailable.
func TestRegistriesAreNotMixed(t *testing.T) {
	p := startOwn(t, ordinary)
	versions := func(host string) module { return module{host, "same", "network", "aws"} }
	var group sync.WaitGroup
	for i := range 30 {
		host := []string{"up-a.test", "up-b.test", "corp.test"}[i%3]
		group.Go(func() {
			if got, want := from(p.t, p.mustInstall(versions(host), "1.0.0")), strings.TrimSuffix(host, ".test"); got != want {
				p.t.Errorf("%s: got the package of %s", host, got)
			}
		})
	}
	group.Wait()
	a := world.good["up-a.test"]
	a.Down()
	defer a.Up()
	p.run("kept", func(t *testing.T) {
		if got := from(t, p.mustInstall(versions("up-a.test"), "1.0.0")); got != "up-a" {
			t.Errorf("got the package of %s", got)
		}
	})
	p.run("own-hostname", func(t *testing.T) {
		if a := p.ask(http.MethodGet, "/v1/modules/same/network/aws/1.0.0/download"); !strings.Contains(a.Header.Get("X-Terraform-Get"), "/up-a.test~/") {
			t.Errorf("%d, %q", a.Status, a.Header.Get("X-Terraform-Get"))
		}
	})
	before := len(world.good["up-b.test"].Requests())
	for name, path := range map[string]string{
		"not-kept":              "/up-a.test/v1/modules/only/upb/aws/versions",
		"not-kept-download":     "/up-a.test/v1/modules/only/upb/aws/1.0.0/download",
		"not-kept-own-hostname": "/v1/modules/only/upb/aws/versions",
	} {
		p.run(name, func(t *testing.T) {
			if a := p.ask(http.MethodGet, path); a.Status != http.StatusBadGateway && a.Status != http.StatusServiceUnavailable {
				t.Errorf("%d: %s; want 502 or 503", a.Status, a.Said())
			}
		})
	}
	for _, r := range world.good["up-b.test"].Requests()[before:] {
		t.Errorf("up-b.test was asked for %s", r.Path)
	}
	if got := from(t, p.mustInstall(versions("up-b.test"), "1.0.0")); got != "up-b" {
		t.Errorf("up-b.test: got the package of %s", got)
	}
}

// A reserved namespace is not requested from other registries, by its name or a similar one.
func TestReservedNamespacesStayReserved(t *testing.T) {
	p := startOwn(t, ordinary)
	public := []string{"up-a.test", "up-b.test"}
	before := map[string]int{}
	for _, host := range public {
		before[host] = len(world.good[host].Requests())
	}
	ask := func(t *testing.T, want int) {
		t.Helper()
		a := p.ask(http.MethodGet, "/v1/modules/corp/vpc/aws/versions")
		if a.Status != want || strings.Contains(string(a.Body), "99.0.0") {
			t.Errorf("%d %s; want %d and no 99.0.0", a.Status, a.Body, want)
		}
		for _, path := range []string{"/v1/modules/corp/vpc/aws/99.0.0/download", "/v1/modules/corp/vpc/aws/99/download", "/v1/modules/corp/none/aws/versions"} {
			if a := p.ask(http.MethodGet, path); a.Status < 400 {
				t.Errorf("%s: %d", path, a.Status)
			}
		}
		for _, host := range public {
			for _, r := range world.good[host].Requests()[before[host]:] {
				if strings.Contains(strings.ToLower(r.Path), "/corp/") {
					t.Errorf("%s was asked for %s", host, r.Path)
				}
			}
		}
	}
	p.run("up", func(t *testing.T) { ask(t, http.StatusOK) })
	p.run("other-host-headers", func(t *testing.T) {
		for _, header := range []string{"X-Forwarded-Host", "Forwarded", "X-Original-Host"} {
			p.ask(http.MethodGet, "/v1/modules/corp/vpc/aws/versions", header, "up-a.test")
		}
		ask(t, http.StatusOK)
	})
	corp := world.good["corp.test"]
	p.run("broken", func(t *testing.T) {
		corp.Set(registrytest.All, registrytest.Knobs{Status: 500})
		defer corp.Set(registrytest.All, registrytest.Knobs{})
		ask(t, http.StatusOK)
	})
	p.run("says-404", func(t *testing.T) {
		corp.Set(registrytest.All, registrytest.Knobs{Status: 404})
		defer corp.Set(registrytest.All, registrytest.Knobs{})
		if a := p.ask(http.MethodGet, "/v1/modules/corp/gone/aws/versions"); a.Status < 400 {
			t.Errorf("%d", a.Status)
		}
		ask(t, http.StatusOK)
	})
	p.run("down", func(t *testing.T) {
		corp.Down()
		defer corp.Up()
		ask(t, http.StatusOK)
	})
	p.run("a-namespace-like-it", func(t *testing.T) {
		if got := from(t, p.mustOwn("corp-evil/vpc/aws", "1.0.0")); got != "up-a" {
			t.Errorf("corp-evil is answered by %s", got)
		}
		if got := from(t, p.mustOwn("corp/vpc/aws", "1.0.0")); got != "corp" {
			t.Errorf("corp is answered by %s", got)
		}
	})
}

// mustOwn installs a module under modproxy's own hostname.
func (p *proxy) mustOwn(address, version string) map[string]file {
	p.t.Helper()
	a := p.ask(http.MethodGet, fmt.Sprintf("/v1/modules/%s/%s/download", address, version))
	a = p.ask(http.MethodGet, strings.TrimPrefix(a.Header.Get("X-Terraform-Get"), p.url))
	if a.Status != http.StatusOK {
		p.t.Fatalf("%s: %d: %s", address, a.Status, a.Said())
	}
	return unpack(p.t, a.Body)
}
