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
