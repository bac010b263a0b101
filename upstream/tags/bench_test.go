package tags_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/upstream"
)

// BenchmarkVersions measures the list of 5,000 versions from a registry and from tags, the location of one of them, and the list of one
// of 200 modules whose tags are in one repository. The servers are programs on this machine: git starts a process for each request.
func BenchmarkVersions(b *testing.B) {
	const versions, modules = 5000, 200
	var text strings.Builder
	for i := range versions {
		fmt.Fprintf(&text, "-- repos/acme/network.git@v1.%d.0/main.tf --\n-- modules/acme/network/aws/1.%d.0 --\ngit::{url}/acme/network.git?ref=v1.%[1]d.0\n", i, i)
	}
	text.WriteString("-- repos/acme/all.git@v1.0.0/main.tf --\n")
	u := registrytest.New(b, txtar.Parse([]byte(text.String())))
	for i := range versions {
		if err := u.Move("acme/all.git", fmt.Sprintf("aws/m%d/v1.%d.0", i%modules, i), "v1.0.0"); err != nil {
			b.Fatal(err)
		}
	}
	out, table := newTable(b, u)
	registry, err := upstream.New(upstream.Config{Egress: out, Fetch: table, Hosts: map[string]upstream.Host{host: {Modules: u.URL + "/v1/modules/", Rate: 1 << 20}}})
	if err != nil {
		b.Fatal(err)
	}
	own := newRegistry(b, u, line{"acme/network/aws", "git::URL/acme/network.git"}, line{"all/{name}/aws", "git::URL/acme/all.git", "", "aws/{name}/v{version}"})
	m := moduleOf("acme/network/aws")
	ask := func(r modproxy.Registry, m modproxy.Address, want int) func(b *testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				if v, err := r.Versions(b.Context(), m); err != nil || len(v.List) != want {
					b.Fatal(v, err)
				}
			}
		}
	}
	b.Run("registry", ask(registry, m, versions))
	b.Run("tags", ask(own, m, versions))
	b.Run("tags of one module of 200", ask(own, moduleOf("all/m7/aws"), versions/modules))
	b.Run("location by registry", func(b *testing.B) {
		for b.Loop() {
			if _, err := registry.Location(b.Context(), m.At("1.7.0")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("location by tag", func(b *testing.B) {
		for b.Loop() {
			if _, err := own.Location(b.Context(), m.At("1.7.0")); err != nil {
				b.Fatal(err)
			}
		}
	})
}
