package store

// Held returns how many bytes of blobs are in memory, and how many of them could be
// dropped.
func (s *Store) Held() (used, idle int64) {
	s.init()
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	return s.memory.used, s.memory.idle
}

// Known returns of how many blobs something is known.
func (s *Store) Known() int {
	s.init()
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	return len(s.room.entries)
}
