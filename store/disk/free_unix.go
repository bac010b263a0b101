//go:build linux || darwin

package disk

import "syscall"

// FileSystemOf returns the use of the file system of a directory. ok is false if it is unknown.
func FileSystemOf(dir string) (use FileSystem, ok bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return FileSystem{}, false
	}
	return FileSystem{Free: int64(s.Bavail) * int64(s.Bsize), Used: int64(s.Blocks-s.Bfree) * int64(s.Bsize)}, true
}
