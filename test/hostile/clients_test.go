//go:build linux

package hostile_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/test/rig"

	"github.com/rogpeppe/go-internal/txtar"
)

// getModules installs modules, given by name and source, with a client and returns their directories. The client uses modproxy unless p is
// nil.
func getModules(t *testing.T, client string, p *proxy, sources map[string]string, registries ...string) string {
	t.Helper()
	i := &rig.Installation{Dir: t.TempDir(), Calls: map[string]string{}, Registries: map[string]string{}, CAFile: world.caFile}
	for name, source := range sources {
		i.Calls[name] = fmt.Sprintf("source = %q", source)
		if !strings.Contains(source, "::") {
			i.Calls[name] += "\nversion = \"1.0.0\""
		}
	}
	if p != nil {
		p.others = true
		for _, host := range registries {
			i.Registries[host] = p.url + "/" + host + "/v1/modules/"
		}
	}
	dir, err := i.Get(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// legalForms are the forms of package locations that must work, by the module of the registry up-a.test that has each form.
var legalForms = []string{
	"header-204", "json-200", "header-200", "path", "relative", "tgz", "bzip2", "tbz2", "xz", "txz", "zip",
	"archive-argument", "checksum", "subdirectory", "glob", "glob-argument", "git", "git-branch", "git-subdirectory",
	"get", "meta", "user", "query",
}

// Guards against hostile registries must not break good ones.
func TestLegalFormsWork(t *testing.T) {
	p := start(t, ordinary)
	golden := goldenTree(t, "archives/legal.zip/")
	dotted := located("./x.zip")
	zip := fetched(t, "https://src.test/archives/legal.zip")
	dotted.other = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/modules/legal/dotted/aws/1.0.0/x.zip" {
			http.NotFound(w, r)
			return
		}
		w.Write(zip)
	}
	host := dotted.host(t)
	sources := map[string]string{"dotted": host + "/legal/dotted/aws"}
	for _, form := range legalForms {
		sources[form] = "up-a.test/legal/" + form + "/aws"
		sources[form+"-sub"] = "up-a.test/legal/" + form + "/aws//modules/sub"
	}
	delete(sources, "subdirectory-sub") // the subdirectory is the root there
	delete(sources, "git-subdirectory-sub")
	for name, client := range rig.Clients(t) {
		p.run(name, func(t *testing.T) {
			dir := getModules(t, client, p, sources, "up-a.test", host)
			for form := range sources {
				want := maps.Clone(golden)
				if strings.HasSuffix(form, "-sub") {
					delete(want, ".hidden") // clients leave hidden files out when they copy
				}
				if strings.HasSuffix(form, "subdirectory") {
					want = under("wrapped", golden)
				}
				same(t, form, readTree(t, filepath.Join(dir, form)), want)
			}
		})
	}
}

// A package from git has the same files that a client gets from git directly.
func TestPackagesAreFaithful(t *testing.T) {
	p := start(t, ordinary)
	for name, client := range rig.Clients(t) {
		p.run(name, func(t *testing.T) {
			proxied := getModules(t, client, p, map[string]string{"m": "up-a.test/good/faithful/aws"}, "up-a.test")
			direct := getModules(t, client, nil, map[string]string{"m": "git::https://src.test/good/faithful.git?ref=v1.0.0"})
			want := readTree(t, filepath.Join(direct, "m"))
			if len(want) < 12 {
				t.Errorf("the client got %d files by itself: the case shows nothing", len(want))
			}
			same(t, "package", readTree(t, filepath.Join(proxied, "m")), want)
		})
	}
}

// goldenTree is the part of the fixture of src.test below a prefix.
func goldenTree(t *testing.T, prefix string) map[string]file {
	t.Helper()
	fixture, err := txtar.ParseFile(filepath.Join("testdata", "src.test.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]file{}
	for _, f := range fixture.Files {
		if name, ok := strings.CutPrefix(f.Name, prefix); ok {
			name, exec := strings.CutSuffix(name, "*")
			files[name] = file{string(f.Data), exec}
		}
	}
	if len(files) == 0 {
		t.Fatalf("the fixture has nothing below %s", prefix)
	}
	return files
}

func under(dir string, files map[string]file) map[string]file {
	moved := map[string]file{}
	for name, f := range files {
		moved[dir+"/"+name] = f
	}
	return moved
}

// fetched returns the content that a good server has at a URL.
func fetched(t *testing.T, url string) []byte {
	t.Helper()
	res, err := trusting().Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, res.Status, err)
	}
	return data
}
