package store

import (
	"context"
	"time"

	"github.com/modproxy/modproxy"
)

// ToQuarantine quarantines a blob as if it were damaged, without a call of Observe.
func (s *Store) SetAside(ctx context.Context, d modproxy.Digest) error {
	s.room.edit(d, func(e *entry) { e.removals++ })
	_, err := s.remove(ctx, ToQuarantine, []modproxy.Digest{d})
	return err
}

// Held returns the bytes of blobs in memory, and the bytes of those that could be dropped.
func (s *Store) Held() (used, idle int64) {
	return s.memory.Usage()
}

// Known returns the number of blobs with an entry in the account.
func (s *Store) Known() int {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	return len(s.room.entries)
}

// Settle sets the minimum age of the last change of a file, for a check of the file to be remembered.
func (s *Store) Settle(d time.Duration) {
	s.checked.settle = d
}
