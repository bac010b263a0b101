package auth_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

func TestMakeDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	for range 2 {
		if err := auth.MakeDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if err := auth.MakeDir(filepath.Join(dir, "no", "auth")); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Error(err)
	}
}
