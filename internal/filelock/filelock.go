// Package filelock locks files between processes, with flock, or returns [errors.ErrUnsupported] where there is none. A
// lock ends when the file is closed. Two handles in one process exclude each other like two processes.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrLocked is returned when another process has the lock.
var ErrLocked = errors.New("another process has it locked")

// TryLock takes an exclusive lock, or returns [ErrLocked].
func TryLock(f *os.File) error { return try(f, true) }

// TryRLock takes a shared lock, or returns [ErrLocked] when another process has an exclusive one.
func TryRLock(f *os.File) error { return try(f, false) }

// Lock takes an exclusive lock. It waits for those that have one, and ends with ctx.
func Lock(ctx context.Context, f *os.File) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if err := TryLock(f); !errors.Is(err, ErrLocked) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("lock %s: %w: %w", f.Name(), ErrLocked, context.Cause(ctx))
		}
	}
}
