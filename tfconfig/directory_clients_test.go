package tfconfig_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/modproxy/modproxy/tfconfig"
)

func TestDetectClients(t *testing.T) {
	locked := func(hosts ...string) (text string) {
		for _, host := range hosts {
			text += "provider \"" + host + "/hashicorp/random\" {\n  version = \"3.6.0\"\n}\n"
		}
		return text
	}
	const terraform, tofu = "registry.terraform.io", "registry.opentofu.org"
	for name, test := range map[string]struct {
		files map[string]string
		want  []tfconfig.Client
		file  string
	}{
		"nothing tells":           {files: map[string]string{"main.tf": ""}},
		"no directory":            {},
		"locked by Terraform":     {map[string]string{"main.tf": "", ".terraform.lock.hcl": locked(terraform)}, []tfconfig.Client{tfconfig.Terraform}, ".terraform.lock.hcl"},
		"locked by OpenTofu":      {map[string]string{"main.tf": "", ".terraform.lock.hcl": locked(tofu, "registry.acme.example")}, []tfconfig.Client{tfconfig.OpenTofu}, ".terraform.lock.hcl"},
		"locked by both":          {map[string]string{".terraform.lock.hcl": locked(tofu, terraform)}, []tfconfig.Client{tfconfig.Terraform, tfconfig.OpenTofu}, ".terraform.lock.hcl"},
		"locked, elsewhere":       {files: map[string]string{".terraform.lock.hcl": locked("registry.acme.example")}},
		"a lock file that breaks": {files: map[string]string{".terraform.lock.hcl": "provider \"" + tofu + "/a/b\" {"}},
		"files of OpenTofu":       {map[string]string{"main.tofu": "", "README.md": ""}, []tfconfig.Client{tfconfig.OpenTofu}, "main.tofu"},
		"files of both":           {files: map[string]string{"main.tofu": "", "main.tf": ""}},
		"a version of OpenTofu":   {map[string]string{"main.tf": "", ".opentofu-version": "1.12.0"}, []tfconfig.Client{tfconfig.OpenTofu}, ".opentofu-version"},
		"the lock file counts most": {map[string]string{"main.tofu": "", ".opentofu-version": "1.12.0", ".terraform.lock.hcl": locked(terraform)},
			[]tfconfig.Client{tfconfig.Terraform}, ".terraform.lock.hcl"},
	} {
		dir := t.TempDir()
		for file, text := range test.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if test.files == nil {
			dir = filepath.Join(dir, "absent")
		}
		if clients, file := tfconfig.DetectClients(dir); !slices.Equal(clients, test.want) || file != test.file {
			t.Errorf("%s: %v by %q, want %v by %q", name, clients, file, test.want, test.file)
		}
	}
}
