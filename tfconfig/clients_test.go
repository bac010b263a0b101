package tfconfig_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/test/rig"
	"github.com/modproxy/modproxy/tfconfig"
)

// The clients request exactly the modules that the package reads in each archive of testdata/clients. The registry has no module, so
// the clients see only the calls in the archive.
func TestClients(t *testing.T) {
	archives, _ := filepath.Glob("testdata/clients/*.txtar")
	if len(archives) == 0 {
		t.Fatal("no archives")
	}
	programs := map[string]string{}
	for client, program := range rig.Clients(t) {
		programs[client] = program
	}
	for client, program := range rig.Evaluating(t) {
		programs[client+" that evaluates"] = program
	}
	for name, program := range programs {
		client, _, _ := strings.Cut(name, " ")
		for _, archive := range archives {
			t.Run(name+"/"+strings.TrimSuffix(filepath.Base(archive), ".txtar"), func(t *testing.T) {
				t.Parallel()
				a, dir := unpacked(t, archive)
				asked, output := install(t, program, dir, nil, nil)
				files := map[string][]byte{}
				for _, f := range a.Files {
					files[f.Name] = f.Data
				}
				c, err := tfconfig.Parse(files, tfconfig.Options{Client: tfconfig.Client(client), Tests: true})
				if err != nil || len(c.Problems) > 0 {
					t.Fatal(err, c)
				}
				var read []string
				for _, call := range c.Calls {
					if m, _, ok := tfconfig.ParseRegistrySource(call.Source, tfconfig.DefaultHosts[tfconfig.Client(client)]); ok {
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

// For each archive of testdata/constants, the clients that evaluate sources and versions request the modules that the package reads and
// choose the same versions. The files "flags" and "environment" are the arguments and the environment of the client.
func TestConstants(t *testing.T) {
	archives, _ := filepath.Glob("testdata/constants/*.txtar")
	if len(archives) == 0 {
		t.Fatal("no archives")
	}
	for client, program := range rig.Evaluating(t) {
		for _, archive := range archives {
			t.Run(client+"/"+strings.TrimSuffix(filepath.Base(archive), ".txtar"), func(t *testing.T) {
				t.Parallel()
				a, dir := unpacked(t, archive)
				var flags, environment []string
				for _, f := range a.Files {
					switch f.Name {
					case "flags":
						flags = strings.Split(strings.TrimSpace(string(f.Data)), "\n")
					case "environment":
						environment = strings.Split(strings.TrimSpace(string(f.Data)), "\n")
					case "only":
						if strings.TrimSpace(string(f.Data)) != client {
							return
						}
					}
				}
				asked, output := install(t, program, dir, flags, environment)
				o, files := tfconfig.Options{Client: tfconfig.Client(client), Environment: map[string]string{}, Given: map[string]string{}}, []string{}
				for _, text := range environment {
					name, value, _ := strings.Cut(strings.TrimPrefix(text, "TF_VAR_"), "=")
					o.Environment[name] = value
				}
				for _, flag := range flags {
					if text, ok := strings.CutPrefix(flag, "-var="); ok {
						name, value, _ := strings.Cut(text, "=")
						o.Given[name] = value
					} else if file, ok := strings.CutPrefix(flag, "-var-file="); ok {
						files = append(files, filepath.Join(dir, file))
					}
				}
				c, err := tfconfig.NewReader(nil, 0).ReadDirectory(t.Context(), dir, o, files...)
				if err != nil || len(c.Problems) > 0 {
					t.Fatal(err, c)
				}
				var read []string
				for _, call := range c.Calls {
					m, _, ok := tfconfig.ParseRegistrySource(call.Source, tfconfig.DefaultHosts[o.Client])
					if !ok || call.Dynamic != "" {
						continue
					}
					name := m.Namespace + "/" + m.Name + "/" + m.System
					if version, err := closure.ChooseModule(o.Client, available, call.Version); err == nil {
						read = append(read, name, name+" "+version)
					}
				}
				slices.Sort(read)
				if diff := cmp.Diff(asked, slices.Compact(read)); diff != "" || len(asked) == 0 {
					t.Errorf("-asked for by %s +read\n%s\n%s\n%+v", client, diff, output, c)
				}
			})
		}
	}
}

// Every function of a client is evaluated or listed as not evaluated. A call of an unknown function would look like an error, which
// "try" ignores.
func TestFunctions(t *testing.T) {
	for client, program := range rig.Evaluating(t) {
		cmd := exec.CommandContext(t.Context(), program, "metadata", "functions", "-json")
		cmd.Env = []string{"HOME=" + t.TempDir(), "CHECKPOINT_DISABLE=1"}
		text, err := cmd.Output()
		var has struct {
			Signatures map[string]any `json:"function_signatures"`
		}
		if err := errors.Join(err, json.Unmarshal(text, &has)); err != nil || len(has.Signatures) < 100 {
			t.Fatalf("%s: %v, %d functions", client, err, len(has.Signatures))
		}
		for name := range has.Signatures {
			if !tfconfig.IsFunction(tfconfig.Client(client), name) {
				t.Errorf("%s has a function %s", client, name)
			}
		}
	}
}

// available are the versions of every module in the registry of the tests.
var available = func() (all []modproxy.Listed) {
	for _, version := range []string{"1.0.0", "1.5.0", "2.0.0"} {
		v, _ := modproxy.ParseVersion(version)
		all = append(all, modproxy.Listed{Version: v})
	}
	return all
}()

// install installs the modules of a directory with a client. It returns the requested modules, and their versions if flags or environment
// are set.
func install(t *testing.T, program, dir string, flags, environment []string) (asked []string, output string) {
	t.Helper()
	var mu sync.Mutex
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		name := strings.TrimPrefix(r.URL.Path, "/")
		if module, ok := strings.CutSuffix(name, "/versions"); ok {
			if asked = append(asked, module); flags != nil || environment != nil {
				_, _ = io.WriteString(w, `{"modules":[{"versions":[{"version":"1.0.0"},{"version":"1.5.0"},{"version":"2.0.0"}]}]}`)
				return
			}
		} else if version, ok := strings.CutSuffix(name, "/download"); ok {
			at := strings.LastIndex(version, "/")
			asked = append(asked, version[:at]+" "+version[at+1:])
		}
		http.NotFound(w, r)
	}))
	defer registry.Close()
	settings := ""
	for _, host := range tfconfig.DefaultHosts {
		settings += fmt.Sprintf("host %q {\n  services = { \"modules.v1\" = \"%s/\" }\n}\n", host, registry.URL)
	}
	home := t.TempDir()
	config := filepath.Join(home, "cli.tfrc")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, append([]string{"init", "-no-color", "-backend=false", "-input=false"}, flags...)...)
	cmd.Dir = dir
	cmd.Env = append([]string{"HOME=" + home, "TF_CLI_CONFIG_FILE=" + config, "CHECKPOINT_DISABLE=1", "PATH=" + os.Getenv("PATH")}, environment...)
	text, _ := cmd.CombinedOutput() // the installation fails, because the registry has no packages
	slices.Sort(asked)
	return slices.Compact(asked), string(text)
}

// unpacked returns an archive and a directory with its files.
func unpacked(t *testing.T, archive string) (*txtar.Archive, string) {
	t.Helper()
	a, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	return a, writeFiles(t, a.Files)
}

// writeFiles writes files into a new directory and returns it.
func writeFiles(t *testing.T, files []txtar.File) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		name := filepath.Join(dir, f.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, f.Data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
