package closure_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/modproxy/modproxy/closure"
)

// dir writes files to a directory, and returns it as a tree.
func dir(t *testing.T, files map[string]string) closure.Tree {
	t.Helper()
	at := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return closure.Directory(at)
}

func TestRead(t *testing.T) {
	var r closure.Reader
	got, err := r.Read(t.Context(), dir(t, map[string]string{"main.tf": `
module "m" {
  source  = "acme/network/aws"
  version = "~> 1.0"
}
`}), closure.Options{Client: closure.Terraform})
	if err != nil || len(got.Calls) != 1 || got.Calls[0].Source != "acme/network/aws" || got.Calls[0].Line != 2 {
		t.Errorf("Read = %+v, %v", got, err)
	}
}
