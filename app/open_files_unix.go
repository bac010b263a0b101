//go:build unix

package app

import "syscall"

// openFiles returns the maximum number of open files of the process, or zero if it is not known.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur)
}
