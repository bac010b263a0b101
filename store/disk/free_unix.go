//go:build linux || darwin

package disk

import "syscall"

// freeOf returns the bytes that the file system of a directory has free for this process, and whether that is known.
func freeOf(dir string) (bytes int64, ok bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
