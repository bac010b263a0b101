package ledger_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/modproxy/modproxy/ledger"
)

// TestOpenBelowDanglingLink: a directory cannot be created below a dangling symbolic link.
func TestOpenBelowDanglingLink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("absent/target", link); err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Open(filepath.Join(link, "data", "ledger"))
	if err == nil {
		l.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v; want that the directory cannot be made", err)
	}
}
