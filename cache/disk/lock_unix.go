//go:build unix && !solaris && !aix

package disk

import (
	"errors"
	"os"
	"syscall"
)

// lockIndex takes the lock that bbolt takes.
func lockIndex(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errHeld(f.Name())
	}
	return err
}
