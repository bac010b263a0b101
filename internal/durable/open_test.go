//go:build unix && !solaris && !aix

package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/modproxy/modproxy/internal/durable"
)

func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.WriteFile(path("file"), []byte("x"), 0o600))
	must(t, os.Symlink("file", path("link")))
	must(t, os.Symlink("absent", path("dangling")))
	must(t, syscall.Mkfifo(path("pipe"), 0o600))
	for name, want := range map[string]struct{ follow, plain error }{
		"file": {}, "link": {nil, syscall.ELOOP}, "dangling": {os.ErrNotExist, syscall.ELOOP},
		"pipe": {durable.ErrNotRegular, durable.ErrNotRegular}, ".": {durable.ErrNotRegular, durable.ErrNotRegular},
	} {
		for flag, want := range map[int]error{0: want.follow, durable.NoFollow: want.plain} {
			f, err := durable.OpenRegular(path(name), os.O_RDONLY|flag)
			if !errors.Is(err, want) {
				t.Errorf("%s, flag %#x: %v, want %v", name, flag, err, want)
			}
			if err == nil {
				f.Close()
			}
		}
	}
	if _, err := durable.OpenRegular(path("dangling"), os.O_RDWR|os.O_CREATE|durable.NoFollow); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a file is made through a link: %v", err)
	}
	f, err := durable.OpenRegular(path("new"), os.O_RDWR|os.O_CREATE|durable.NoFollow)
	must(t, err)
	defer f.Close()
	info, err := f.Stat()
	must(t, err)
	if info.Mode().Perm() != 0o600 || durable.Links(info) != 1 {
		t.Errorf("mode %v, %d names", info.Mode(), durable.Links(info))
	}
	must(t, os.Link(path("new"), path("other")))
	if info, err = f.Stat(); err != nil || durable.Links(info) != 2 {
		t.Errorf("%d names, %v", durable.Links(info), err)
	}
}

func TestInheritOwner(t *testing.T) {
	dir, owner := t.TempDir(), os.Geteuid()
	if owner == 0 { // only root can change owners
		owner = 65534
		must(t, os.Chown(dir, owner, owner))
	}
	f, err := os.Create(filepath.Join(dir, "file"))
	must(t, err)
	defer f.Close()
	must(t, durable.InheritOwner(f))
	info, err := f.Stat()
	must(t, err)
	if got := int(info.Sys().(*syscall.Stat_t).Uid); got != owner {
		t.Errorf("owner %d, want %d", got, owner)
	}
}
