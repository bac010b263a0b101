package tfconfig_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/tfconfig"
)

func TestReadCLI(t *testing.T) {
	file := filepath.Join(t.TempDir(), "client.tfrc")
	read := func(text string) (*tfconfig.CLI, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return tfconfig.NewReader(nil, 0).ReadCLI(t.Context(), file)
	}
	got, err := read(`
plugin_cache_dir = "$HOME/.cache" # clients expand it
host "registry.example.com" {
  services = {
    "modules.v1" = "https://proxy.example/registry.example.com/v1/modules/"
    "login.v1"   = { client = "x", ports = [1, 2] }
  }
}
host "other.example" {
  services { providers.v1 = "/p/" } // only version 1 of HCL reads this
}
credentials "registry.example.com" { token = "mp_x" }
credentials "empty.example" {}
provider_installation {
  network_mirror {
    url     = "https://proxy.example/-/mirror/"
    include = ["registry.example.com/*/*"]
  }
  direct { exclude = ["registry.example.com/*/*"] }
}
`)
	want := &tfconfig.CLI{
		Hosts: map[string]map[string]string{
			"registry.example.com": {"modules.v1": "https://proxy.example/registry.example.com/v1/modules/", "login.v1": ""},
			"other.example":        {"providers.v1": "/p/"},
		},
		Tokens:  map[string]string{"registry.example.com": "mp_x"},
		Mirrors: []string{"https://proxy.example/-/mirror/"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ReadCLI = %+v, %v\nwant %+v", got, err, want)
	}
	if got, err := read(""); err != nil || len(got.Hosts) > 0 {
		t.Errorf("an empty file: %+v, %v", got, err)
	}
	for _, text := range []string{`host "a" {`, `host "a" { services = "x" }`, strings.Repeat("a = [", 50_000)} {
		if got, err := read(text); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%.40q: %+v, %v", text, got, err)
		}
	}
	if _, err := read(strings.Repeat("#", 300<<10)); err == nil {
		t.Error("a file of 300 KiB was read")
	}
}

// No CLI configuration ends the process in another way than as ErrInvalid.
func FuzzParseCLI(f *testing.F) {
	f.Add(`host "a" { services = { "modules.v1" = "https://b/" } }`)
	f.Add(`credentials "a" { token = "b" }`)
	f.Add(`provider_installation { network_mirror { url = "c" } direct {} }`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := tfconfig.ParseCLI([]byte(text)); err != nil && !errors.Is(err, modproxy.ErrInvalid) {
			t.Error(err)
		}
	})
}
