//go:build unix && !solaris && !aix

package filelock

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

func try(f *os.File, exclusive bool) error {
	how := syscall.LOCK_SH | syscall.LOCK_NB
	if exclusive {
		how = syscall.LOCK_EX | syscall.LOCK_NB
	}
	for {
		err := syscall.Flock(int(f.Fd()), how)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			err = ErrLocked
		case errors.Is(err, syscall.EINTR):
			continue
		}
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
}
