package tfconfig_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/tfconfig"
)

// A lock file that differs from the form that clients write is a problem and has no entries.
func TestLocks(t *testing.T) {
	const name, good = ".terraform.lock.hcl", "provider \"bücher.example/acme/toy\" {\n  version = \"1.0.0\"\n}\n"
	for text, want := range map[string]string{
		"":                         "[] []",
		"# by a client\n\n" + good: "[{{.terraform.lock.hcl 3} xn--bcher-kva.example/acme/toy 1.0.0}] []",
		good + "x = 1\n":           "[] [.terraform.lock.hcl: line 4: invalid: not as clients write it]",
		good + strings.Repeat("#", tfconfig.MaxFile): "[] [.terraform.lock.hcl: invalid: it is larger than the 512 KiB that are read]",
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{name: text, "main.tf": ""} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, err := tfconfig.NewReader(nil, 0).ReadDirectory(t.Context(), dir, tfconfig.Options{Client: tfconfig.Terraform})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(c.Locks, c.Problems); got != want {
			t.Errorf("%.80q: %s; want %s", text, got, want)
		}
	}
}
