package closure_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/test/rig"
)

// The clients ask a registry for the modules that are read in each archive of testdata/clients, and for no others. The
// registry has none of them, so they see only what is called there.
func TestClients(t *testing.T) {
	archives, _ := filepath.Glob("testdata/clients/*.txtar")
	if len(archives) == 0 {
		t.Fatal("no archives")
	}
	for client, program := range rig.Clients(t) {
		for _, archive := range archives {
			t.Run(client+"/"+strings.TrimSuffix(filepath.Base(archive), ".txtar"), func(t *testing.T) {
				t.Parallel()
				a, dir := unpacked(t, archive)
				asked, output := install(t, program, dir)
				files := map[string][]byte{}
				for _, f := range a.Files {
					files[f.Name] = f.Data
				}
				c, err := closure.Parse(files, closure.Options{Client: closure.Client(client), Tests: true})
				if err != nil || len(c.Problems) > 0 {
					t.Fatal(err, c)
				}
				var read []string
				for _, call := range c.Calls {
					if m, _, ok := closure.Registry(call.Source, closure.Hosts[closure.Client(client)]); ok {
						read = append(read, m.Namespace+"/"+m.Name+"/"+m.System)
					}
				}
				slices.Sort(read)
				if diff := cmp.Diff(asked, slices.Compact(read)); diff != "" || len(asked) == 0 {
					t.Errorf("-asked for by %s +read\n%s\n%s", client, diff, output)
				}
			})
		}
	}
}

// install has a client install the modules of a directory, and returns those that it asks for.
func install(t *testing.T, program, dir string) (asked []string, output string) {
	var mu sync.Mutex
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if name, ok := strings.CutSuffix(r.URL.Path, "/versions"); ok {
			asked = append(asked, strings.TrimPrefix(name, "/"))
		}
		http.NotFound(w, r)
	}))
	defer registry.Close()
	settings := ""
	for _, host := range closure.Hosts {
		settings += fmt.Sprintf("host %q {\n  services = { \"modules.v1\" = \"%s/\" }\n}\n", host, registry.URL)
	}
	home := t.TempDir()
	config := filepath.Join(home, "cli.tfrc")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "init", "-no-color", "-backend=false", "-input=false")
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + home, "TF_CLI_CONFIG_FILE=" + config, "CHECKPOINT_DISABLE=1", "PATH=" + os.Getenv("PATH")}
	text, _ := cmd.CombinedOutput() // it fails: there are no modules
	slices.Sort(asked)
	return slices.Compact(asked), string(text)
}

// unpacked returns an archive, and a directory that has its files.
func unpacked(t *testing.T, archive string) (*txtar.Archive, string) {
	t.Helper()
	a, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range a.Files {
		name := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return a, dir
}
