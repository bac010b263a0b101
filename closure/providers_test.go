package closure_test

import (
	"context"
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
	"golang.org/x/tools/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/test/rig"
	"github.com/modproxy/modproxy/tfconfig"
)

const offered = `{"versions":[{"version":"1.0.0"},{"version":"1.1.0"},{"version":"1.1.7"},{"version":"1.2.0-rc1"},{"version":"1.2.0"},
	{"version":"1.1.5+build"},{"version":"1.10.0"},{"version":"2.0.0"},{"version":"2.1.0-beta.2"},{"version":"2.1.0-beta.11"}]}`

// offers lists the same versions for every provider, and has no packages.
type offers struct{ modproxy.Registry }

func (offers) Versions(context.Context, modproxy.Address) (*modproxy.Versions, error) {
	return modproxy.ParseProviderVersions([]byte(offered))
}

func (offers) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	return nil, modproxy.ErrNotFound
}

func (offers) Upstream(m modproxy.Address) (modproxy.Address, error) { return m, nil }

// For each archive of testdata/providers, the clients choose the versions of providers that a walk chooses.
func TestProviders(t *testing.T) {
	archives, _ := filepath.Glob("testdata/providers/*.txtar")
	if len(archives) == 0 {
		t.Fatal("no archives")
	}
	for client, program := range rig.Clients(t) {
		for _, archive := range archives {
			t.Run(client+"/"+strings.TrimSuffix(filepath.Base(archive), ".txtar"), func(t *testing.T) {
				t.Parallel()
				a, err := txtar.ParseFile(archive)
				if err != nil {
					t.Fatal(err)
				}
				dir := writeFiles(t, a.Files)
				reader := tfconfig.NewReader(nil, 0)
				starts, wrong, err := closure.Roots{Dirs: []string{dir}, Clients: []tfconfig.Client{tfconfig.Client(client)}}.Starts(t.Context(), reader)
				if err != nil || len(wrong) > 0 {
					t.Fatal(err, wrong)
				}
				w := closure.Walker{Registry: offers{}, Routes: offers{}, Reader: reader, Providers: true}
				var chosen []string
				if err := w.Walk(t.Context(), starts, func(f closure.Found) {
					if f.Kind == closure.Chosen {
						chosen = append(chosen, f.Module.String())
					}
				}); err != nil {
					t.Fatal(err)
				}
				slices.Sort(chosen)
				theirs, output := chooses(t, program, dir)
				if diff := cmp.Diff(theirs, chosen); diff != "" || len(theirs) == 0 {
					t.Errorf("-chosen by %s +by the walk\n%s\n%s", client, diff, output)
				}
			})
		}
	}
}

// chooses installs the providers of a directory with a client, and returns the providers whose packages it requests.
func chooses(t *testing.T, program, dir string) (chosen []string, output string) {
	var mu sync.Mutex
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.URL.Path, "/") // "", host, namespace, type, "versions" or version, …
		if parts[4] == "versions" {
			fmt.Fprint(w, offered)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		chosen = append(chosen, strings.Join(parts[1:4], "/")+" "+parts[4])
		http.NotFound(w, r)
	}))
	defer registry.Close()
	settings := ""
	for _, host := range []string{"registry.terraform.io", "registry.opentofu.org", "registry.example.com"} {
		settings += fmt.Sprintf("host %q {\n  services = { \"providers.v1\" = \"%s/%s/\" }\n}\n", host, registry.URL, host)
	}
	home := t.TempDir()
	config := filepath.Join(home, "cli.tfrc")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "init", "-no-color", "-backend=false", "-input=false")
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + home, "TF_CLI_CONFIG_FILE=" + config, "CHECKPOINT_DISABLE=1", "PATH=" + os.Getenv("PATH")}
	text, _ := cmd.CombinedOutput() // the installation fails, because the registry has no packages
	slices.Sort(chosen)
	return slices.Compact(chosen), string(text)
}
