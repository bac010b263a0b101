//go:build unix && !solaris && !aix

package ledger

import (
	"os"
	"syscall"
)

// lockFile takes a lock that ends with the file, or the process.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
