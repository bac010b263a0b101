//go:build linux || darwin

package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// NoInodes reports whether err means that a file could not be made because its file system has no free inode. The file
// system may still have free bytes.
func NoInodes(err error) bool {
	if !errors.Is(err, syscall.ENOSPC) {
		return false
	}
	name := ""
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		name = at.Path
	} else if at, ok := errors.AsType[*os.LinkError](err); ok {
		name = at.New
	}
	if name == "" {
		return false
	}
	var s syscall.Statfs_t
	if syscall.Statfs(name, &s) != nil && syscall.Statfs(filepath.Dir(name), &s) != nil {
		return false
	}
	return s.Files > 0 && s.Ffree == 0 // some file systems do not count inodes
}
