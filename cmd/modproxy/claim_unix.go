//go:build unix && !solaris && !aix

package main

import (
	"errors"
	"os"
	"syscall"
)

// noWait waits for nobody at the other end of a pipe; noFollow opens no link either.
const (
	noWait   = syscall.O_NONBLOCK
	noFollow = syscall.O_NOFOLLOW | noWait
)

// links is how many names a file has.
func links(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink)
	}
	return 1
}

// lockFile takes a lock that ends with the file, or the process. It is false when
// another process has it; a shared one, when another has one that is not.
func lockFile(f *os.File, shared bool) (bool, error) {
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
