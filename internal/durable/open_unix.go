//go:build unix && !solaris && !aix

package durable

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// NoFollow is a flag for opening files: it refuses a symbolic link by the name.
const NoFollow = syscall.O_NOFOLLOW

const (
	noWait      = syscall.O_NONBLOCK
	canFlushDir = true
)

// Links returns how many names a file has.
func Links(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink)
	}
	return 1
}

// InheritOwner gives f, a file or directory that was made just now, to the owner of the directory that it is
// in. It does nothing unless root runs the program: what root makes there is to be read by the server.
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
