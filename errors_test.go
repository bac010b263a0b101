package modproxy_test

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/modproxy/modproxy"
)

func TestNotKeptSaysWhatToDo(t *testing.T) {
	toy := modproxy.NewProvider("registry.example.com", "acme", "toy").At("1.0.0")
	const before = "not cached, and modproxy is offline (operator: to get it, run on the connected side: modproxy mirror "
	for v, want := range map[modproxy.Ref]string{
		toy: "registry.example.com/acme/toy@1.0.0",
		toy.ForPlatform(modproxy.Platform{OS: "linux", Arch: "amd64"}): "registry.example.com/acme/toy@1.0.0 --platform linux_amd64",
		toy.Address.At(""): "registry.example.com/acme/toy",
	} {
		if got := (&modproxy.NotCached{Ref: v}).Error(); got != before+want+")" {
			t.Errorf("%s; want %s", got, before+want+")")
		}
	}
}

func TestNoSpaceSaysWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("everything is pinned"), "no space: everything is pinned"},
		{&fs.PathError{Op: "open", Path: "data", Err: syscall.EROFS}, "open: read-only file system"},
		{&fs.PathError{Op: "write", Path: "data/tmp/1", Err: syscall.ENOSPC}, `the disk is full: write: no space left on device (operator: "modproxy gc --max-size" or "modproxy rm" makes room)`},
	} {
		if got := (&modproxy.NoSpace{Err: c.err}).Error(); got != c.want {
			t.Errorf("%s; want %s", got, c.want)
		}
		if got := (&modproxy.NoSpace{Err: c.err}).Inside(); got != c.err.Error() {
			t.Errorf("operators read %q of %v", got, c.err)
		}
	}
	inodes := &modproxy.NoSpace{Err: &fs.PathError{Op: "open", Path: "data/tmp/1", Err: syscall.ENOSPC}, Inodes: true}
	want := `the file system has no free inode: open: no space left on device (operator: "df -i" shows inodes; "modproxy gc --max-size" or "modproxy rm" removes files)`
	if got := inodes.Error(); got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// An error about a provider's package for a platform does not show the key under which modproxy stores it.
func TestErrorNamesPlatform(t *testing.T) {
	toy := modproxy.NewProvider("registry.example.com", "acme", "toy").At("1.0.0")
	zip := toy.ForPlatform(modproxy.Platform{OS: "linux", Arch: "amd64"})
	for v, want := range map[modproxy.Ref]string{
		toy: "package registry.example.com/acme/toy 1.0.0: not found",
		zip: "package registry.example.com/acme/toy 1.0.0 for linux_amd64: not found",
	} {
		if got := (&modproxy.Error{Op: "package", Ref: v, Err: modproxy.ErrNotFound}).Error(); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
}
