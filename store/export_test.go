package store

import (
	"context"
	"time"

	"github.com/modproxy/modproxy"
)

// SetAside sets a blob aside as if it were damaged, and does not tell Observe.
func (s *Store) SetAside(ctx context.Context, d modproxy.Digest) error {
	s.init()
	s.room.edit(d, func(e *entry) { e.removals++ })
	_, err := s.remove(ctx, SetAside, []modproxy.Digest{d})
	return err
}

// Held returns how many bytes of blobs are in memory, and how many of them could be
// dropped.
func (s *Store) Held() (used, idle int64) {
	s.init()
	return s.memory.Usage()
}

// Known returns of how many blobs something is known.
func (s *Store) Known() int {
	s.init()
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	return len(s.room.entries)
}

// Settle says how old a change of a file must be before the file is checked, for the check to be remembered.
func (s *Store) Settle(d time.Duration) {
	s.init()
	s.checked.settle = d
}
