package tags_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/git"
	"github.com/modproxy/modproxy/fetch/oci"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/upstream/tags"
)

const host = "modules.test"

// line is one mapping: address, source, path and tags.
type line [4]string

// newTable returns the client of the server of u, and a table that downloads from it.
func newTable(t testing.TB, u *registrytest.Upstream) (*egress.Client, *fetch.Table) {
	t.Helper()
	out, err := egress.New(egress.Config{Allow: []string{"127.0.0.0/8"}, CAFile: u.CAFile, NoHedging: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	dir := t.TempDir()
	return out, &fetch.Table{
		Scratch: dir, Limits: pack.Limits{Bytes: 1 << 20},
		Getters: map[string]fetch.Getter{
			"git": &git.Getter{Dir: dir, CAFile: u.CAFile, Network: out},
			"oci": &oci.Getter{Egress: out, Scratch: dir, MaxReceived: 1 << 20},
		},
	}
}

func newRegistry(t testing.TB, u *registrytest.Upstream, lines ...line) *tags.Registry {
	t.Helper()
	for i := range lines {
		lines[i][1] = strings.NewReplacer("URL", u.URL, "HOST", u.Host).Replace(lines[i][1])
	}
	_, table := newTable(t, u)
	return parsed(t, table, lines...)
}

// parsed returns the registry of lines.
func parsed(t testing.TB, table *fetch.Table, lines ...line) *tags.Registry {
	t.Helper()
	c := tags.Config{Host: host, Fetch: table}
	for _, l := range lines {
		m, err := tags.ParseMapping(l[0], l[1], l[2], l[3])
		if err != nil {
			t.Fatal(err)
		}
		c.Modules = append(c.Modules, m)
	}
	r, err := tags.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// repositories returns the modules of registrytest.Modules, each in a repository with a tag for each version.
func repositories(t testing.TB) *txtar.Archive {
	all := registrytest.Modules()
	for i, f := range all.Files {
		part := strings.SplitN(f.Name, "/", 6) // modules/NAMESPACE/network/aws/VERSION/FILE
		version, err := modproxy.CanonicalVersion(part[4])
		if err != nil {
			t.Fatal(err)
		}
		all.Files[i].Name = fmt.Sprintf("repos/%s-network.git@v%s/%s", part[1], version, part[5])
	}
	return all
}

func TestRegistry(t *testing.T) {
	u := registrytest.New(t, repositories(t))
	for name, lines := range map[string][]line{
		"literal": {
			{"acme/network/aws", "git::URL/acme-network.git", "", ""},
			{"Acme/network/aws", "git::URL/Acme-network.git", "", "v{version}"},
		},
		"pattern": {
			{"acme/{name}/aws", "git::URL/acme-{name}.git", "", "v{version}"},
			{"Acme/{name}/aws", "git::URL/Acme-{name}.git", "", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			registrytest.TestRegistry(t, host, func(t testing.TB) modproxy.Registry { return newRegistry(t, u, lines...) })
		})
	}
}

func moduleOf(address string) modproxy.Address {
	part := strings.Split(address, "/")
	return modproxy.Address{Host: host, Namespace: part[0], Name: part[1], System: part[2]}
}

// No forge is asked about names that a mapping does not allow, and a missing repository reads like one without tags.
func TestNames(t *testing.T) {
	u := registrytest.New(t, repositories(t))
	r := newRegistry(t, u, line{"acme/{name}/{system}", "git::URL/acme-{name}-{system}.git", "", ""})
	for _, name := range []string{
		"VPC", "a.b", "..", "a%2fb", "{name}", "{system}", "", "-a", "a-", strings.Repeat("a", 65), "ä", "a b", "a\n",
	} {
		for _, m := range []modproxy.Address{
			{Host: host, Namespace: "acme", Name: name, System: "aws"}, {Host: host, Namespace: "acme", Name: "network", System: name},
			{Host: host, Namespace: name, Name: "network", System: "aws"}, {Host: "other.test", Namespace: "acme", Name: "network", System: "aws"},
		} {
			_, errVersions := r.Versions(t.Context(), m)
			_, errLocation := r.Location(t.Context(), m.At("1.0.0"))
			if !errors.Is(errVersions, modproxy.ErrNotFound) || !errors.Is(errLocation, modproxy.ErrNotFound) {
				t.Errorf("%q: errors %v and %v", m, errVersions, errLocation)
			}
		}
	}
	if asked := u.Requests(); len(asked) > 0 {
		t.Errorf("the forge received %d requests: %v", len(asked), asked[0])
	}
	_, err := r.Versions(t.Context(), moduleOf("acme/none/aws"))
	if !errors.Is(err, modproxy.ErrNotFound) || strings.Contains(err.Error(), u.Host) {
		t.Errorf("no repository: error %v; want ErrNotFound without the repository", err)
	}
}

// Repository names the repository of a module, and none for another address.
func TestRepository(t *testing.T) {
	u := registrytest.New(t, repositories(t))
	r := newRegistry(t, u, line{"acme/vpc/aws", "git::URL/infra.git", "vpc", ""}, line{"acme/{name}/{system}", "git::URL/acme-{name}-{system}.git", "", ""})
	for address, want := range map[string]string{
		"acme/vpc/aws": u.URL + "/infra.git", "acme/dns/aws": u.URL + "/acme-dns-aws.git", "acme/DNS/aws": "", "other/vpc/aws": "",
	} {
		if got, ok := r.Repository(moduleOf(address)); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v; want %q", address, got, ok, want)
		}
	}
	if got, ok := r.Repository(modproxy.Address{Host: "other.test", Namespace: "acme", Name: "vpc", System: "aws"}); ok {
		t.Errorf("another host: %q", got)
	}
}

// A tag that is not a canonical version is not listed. Two tags for one version must name one commit.
func TestVersionsOfTags(t *testing.T) {
	var files strings.Builder
	for i, tag := range []string{"v1.0.0", "v1.1.0", "1.1.0", "v2", "v3.0.0"} {
		fmt.Fprintf(&files, "-- repos/infra.git@%s/aws/vpc/main.tf --\noutput \"n\" { value = %d }\n", tag, i)
	}
	u := registrytest.New(t, txtar.Parse([]byte(files.String())))
	r := newRegistry(t, u, line{"corp/vpc/aws", "git::URL/infra.git", "aws/vpc", ""})
	m := moduleOf("corp/vpc/aws")
	v, err := r.Versions(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, l := range v.List {
		list = append(list, l.Spelling)
	}
	if want := []string{"1.0.0", "1.1.0", "3.0.0"}; !slices.Equal(list, want) {
		t.Errorf("versions %q, want %q", list, want)
	}
	l, err := r.Location(t.Context(), m.At("1.0.0"))
	if err != nil || l.Subdir != "aws/vpc" {
		t.Errorf("location %+v, error %v", l, err)
	}
	_, err = r.Location(t.Context(), m.At("1.1.0"))
	if !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), `the tags "1.1.0" and "v1.1.0" name different commits`) {
		t.Errorf("an ambiguous version: error %v", err)
	}
	p, err := r.Package(t.Context(), m.At("3.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	rec := modproxy.Record{Ref: m.At("3.0.0"), Sum: p.Sum, Subdir: p.Subdir, Source: p.Source}
	again, err := r.PackageAt(t.Context(), rec)
	if err != nil || !rec.Is(again.Sum, again.Subdir) || again.Source != p.Source {
		t.Fatalf("the recorded package: %+v, error %v", again, err)
	}
	again.Close()
}
