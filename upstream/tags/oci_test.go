package tags_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
)

// ociUpstream returns an upstream with a real OCI registry.
func ociUpstream(t *testing.T, fixture *txtar.Archive) *registrytest.Upstream {
	t.Helper()
	if _, err := os.Stat(registrytest.OCIProgram()); err != nil {
		rig.Missing(t, "%v: tools/build-registry.sh builds it", err)
	}
	return registrytest.New(t, fixture)
}

// The tags of OCI repositories are versions, as those of git are.
func TestOCIRegistry(t *testing.T) {
	all := registrytest.Modules()
	for i, f := range all.Files {
		part := strings.SplitN(f.Name, "/", 6) // modules/NAMESPACE/network/aws/VERSION/FILE
		version, err := modproxy.CanonicalVersion(part[4])
		if err != nil {
			t.Fatal(err)
		}
		repository := map[string]string{"acme": "acme/network", "Acme": "other/network"}[part[1]]
		all.Files[i].Name = fmt.Sprintf("oci/%s@v%s/%s", repository, version, part[5])
	}
	u := ociUpstream(t, all)
	registrytest.TestRegistry(t, host, func(t testing.TB) modproxy.Registry {
		return newRegistry(t, u, line{"acme/{name}/aws", "oci://HOST/acme/{name}", "", "v{version}"}, line{"Acme/network/aws", "oci://HOST/other/network", "", ""})
	})
}

// A version is at the digest of its tag: a tag that moves between the question and the download changes nothing, and is noticed later.
func TestMovedOCITag(t *testing.T) {
	fixture := func(content, more string) *txtar.Archive {
		return txtar.Parse([]byte("-- oci/corp/vpc@1.0.0/main.tf --\n# " + content + "\n-- oci/corp/vpc@1.1.0/aws/main.tf --\n-- oci/corp/vpc@2.0.0_b/main.tf --\n" +
			"-- oci/corp/vpc@2.0/main.tf --\n-- oci/corp/vpc@latest/main.tf --\n" + more))
	}
	u := ociUpstream(t, fixture("one", ""))
	r := newRegistry(t, u, line{"corp/vpc/aws", "oci://HOST/corp/vpc", "", ""}, line{"mono/{name}/aws", "oci://HOST/corp/{name}", "aws", ""})
	m := moduleOf("corp/vpc/aws")
	versions, err := r.Versions(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, l := range versions.List {
		list = append(list, l.Spelling)
	}
	if want := []string{"1.0.0", "1.1.0"}; !slices.Equal(list, want) {
		t.Errorf("versions %q, want %q: a tag has three numbers, and no build metadata", list, want)
	}
	l, err := r.Location(t.Context(), m.At("1.0.0"))
	if err != nil || !strings.HasPrefix(l.URL, "oci://"+u.Host+"/corp/vpc?digest=sha256:") {
		t.Fatalf("location %+v, error %v", l, err)
	}
	p, err := r.Package(t.Context(), m.At("1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	rec := modproxy.Record{Ref: m.At("1.0.0"), Sum: p.Sum, Subdir: p.Subdir, Source: p.Source}
	commit, err := r.Commit(t.Context(), m.At("1.0.0"))
	if err != nil || commit != rec.Source.Commit || !strings.HasSuffix(l.URL, ":"+commit) {
		t.Errorf("commit %q, error %v, want %q", commit, err, rec.Source.Commit)
	}
	again, err := r.PackageAt(t.Context(), rec)
	if err != nil || again.Source != rec.Source || !rec.Is(again.Sum, again.Subdir) {
		t.Fatalf("the recorded package: %+v, error %v", again, err)
	}
	again.Close()

	for _, absent := range []string{"corp/vpc/aws 1.0.1", "corp/vpc/aws 1.0.0+b", "mono/vpc/aws 1.0.0", "mono/none/aws 1.0.0", "mono/a___b/aws 1.0.0"} {
		address, version, _ := strings.Cut(absent, " ")
		_, err := r.Package(t.Context(), moduleOf(address).At(version))
		if !errors.Is(err, modproxy.ErrNotFound) {
			t.Errorf("%s: error %v, want ErrNotFound", absent, err)
		}
	}
	if err := u.LoadArchive(fixture("two", "-- oci/corp/vpc@v1.1.0/main.tf --\n# other\n")); err != nil {
		t.Fatal(err)
	}
	if moved, err := r.Commit(t.Context(), m.At("1.0.0")); err != nil || moved == commit {
		t.Errorf("after the tag moved: commit %q, error %v", moved, err)
	}
	_, err = r.Location(t.Context(), m.At("1.1.0"))
	if !errors.As(err, new(*modproxy.Ambiguous)) || !strings.Contains(err.Error(), `"1.1.0"`) || !strings.Contains(err.Error(), `"v1.1.0"`) {
		t.Errorf("two tags for one version: error %v", err)
	}
}
