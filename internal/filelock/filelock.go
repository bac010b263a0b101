// Package filelock locks files between processes.
//
//	err := filelock.TryLock(f) // ErrLocked if another process has the lock
//	defer f.Close()            // releases the lock
//
// Invariants: a lock ends when the file is closed, or when its process ends. Two handles in one process exclude each
// other like two processes. The locks are those of flock(2). On systems without flock, all functions return
// [errors.ErrUnsupported].
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrLocked is the error if another process has the lock.
var ErrLocked = errors.New("another process has it locked")

// TryLock takes an exclusive lock, or returns [ErrLocked].
func TryLock(f *os.File) error { return try(f, true) }

// TryRLock takes a shared lock. It returns [ErrLocked] if another process has an exclusive lock.
func TryRLock(f *os.File) error { return try(f, false) }

// Lock takes an exclusive lock. It waits until all other locks are released, or until ctx ends.
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
