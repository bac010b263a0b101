//go:build linux || darwin

package disk

import "syscall"

// freeOf returns the bytes available to this process on the file system of a directory. ok is false if they are
// unknown.
func freeOf(dir string) (bytes int64, ok bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
