//go:build unix && !solaris && !aix

package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// If root makes files in the directory of another user, that user owns them afterwards. Links do not lead out of the directory. Other users
// cannot give files away, and InheritOwners succeeds without a change.
func TestInheritOwners(t *testing.T) {
	self := os.Geteuid()
	user := self
	if self == 0 {
		user = 12345
	}
	top := t.TempDir()
	dir, victim := filepath.Join(top, "dir"), filepath.Join(top, "victim")
	deep := filepath.Join(dir, "a", "b", "file")
	err := errors.Join(os.MkdirAll(filepath.Dir(deep), 0o700), os.WriteFile(deep, nil, 0o444), os.WriteFile(victim, nil, 0o600),
		os.Symlink(victim, filepath.Join(dir, "link")), os.Chown(dir, user, -1))
	if err == nil {
		err = InheritOwners(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{deep: user, filepath.Dir(deep): user, filepath.Join(dir, "link"): user, victim: self} {
		var info fs.FileInfo
		if info, err = os.Lstat(name); err != nil {
			t.Fatal(err)
		}
		if is := int(info.Sys().(*syscall.Stat_t).Uid); is != want {
			t.Errorf("%s belongs to %d; want %d", name, is, want)
		}
	}
}
