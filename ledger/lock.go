package ledger

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/modproxy/modproxy"
)

// takeLock takes the lock, and writes into it who has it.
func (l *Log) takeLock() error {
	f, err := os.OpenFile(l.path(lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := lockFile(f); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 32)) // only to help
		return errors.Join(fmt.Errorf("%w: %s: another process has the ledger open: %.32q: %w", modproxy.ErrUnavailable, l.dir, holder, err), f.Close())
	}
	l.lock = f
	// Written in place, which a full disk allows; that nobody can be told is no reason
	// not to open it.
	if _, err := f.WriteAt(fmt.Appendf(nil, "pid %-12d\n", os.Getpid()), 0); err != nil {
		return f.Truncate(0)
	}
	return nil
}
