//go:build unix && !solaris && !aix

package durable

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// NoFollow is a flag for opening files: a name that is a symbolic link is refused.
const NoFollow = syscall.O_NOFOLLOW

const (
	noWait      = syscall.O_NONBLOCK
	canFlushDir = true
)

// Links returns the number of names of a file.
func Links(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink)
	}
	return 1
}

// InheritOwner gives f, a new file or directory, to the owner of its directory, so that the server can read files that
// root makes. It does nothing unless the program runs as root.
func InheritOwner(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(filepath.Dir(f.Name()))
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		return f.Chown(int(owner.Uid), int(owner.Gid))
	}
	return nil
}

// InheritOwners gives everything below dir to the owner of dir. It does nothing unless the program runs as root, for another user.
func InheritOwners(dir string) error {
	root, err := os.OpenRoot(dir) // links in dir do not lead out of it
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 || owner.Uid == 0 {
		return nil
	}
	return fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		return root.Lchown(name, int(owner.Uid), int(owner.Gid))
	})
}
