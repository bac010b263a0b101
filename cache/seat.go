package cache

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy"
)

// seat is what is known of one blob, there or not.
type seat struct {
	digest  modproxy.Digest
	last    atomic.Int64 // when it was last used, in Unix milliseconds; zero: not known
	readers atomic.Int32 // negative: the seat is forgotten
	there   atomic.Bool  // written with room.mu held

	// Guarded by room.mu.
	evicted bool
	going   bool // is being removed
	pinned  bool // is not evicted
	size    int64
	holds   int       // fetches that need it to stay
	fetched time.Time // when a fetch last ended
	saved   Use       // as the storage has it
}

// touch is a use of the blob.
func (s *seat) touch(now time.Time) {
	if ms := now.UnixMilli(); s.last.Load() < ms {
		s.last.Store(ms)
	}
}

// idle tells whether the blob may go. It is called with mu held.
func (s *seat) idle() bool {
	return s.there.Load() && !s.going && !s.pinned && s.holds == 0 && s.readers.Load() == 0
}

// mayGo tells whether the blob may go now or later. It is called with mu held.
func (s *seat) mayGo() bool { return s.there.Load() && !s.pinned }

// seat is the one of d, which is made if need be. It is called with mu held, or
// before everything is in the account, because until then nothing is forgotten.
func (m *room) seat(d modproxy.Digest) *seat {
	if s := m.known(d); s != nil {
		return s
	}
	s, _ := m.seats.LoadOrStore(d, &seat{digest: d})
	return s.(*seat)
}

// known is the seat of d, or nil.
func (m *room) known(d modproxy.Digest) *seat {
	s, _ := m.seats.Load(d)
	known, _ := s.(*seat)
	return known
}

// read is the seat of d with one reader more, until left.
func (m *room) read(d modproxy.Digest) *seat {
	for {
		s := m.seat(d)
		if s.readers.Add(1) > 0 {
			return s
		}
		runtime.Gosched() // it leaves just now
	}
}

// left is the end of a reader.
func (m *room) left(s *seat) {
	if s.readers.Add(-1) == 0 && (m.waiting.Load() || !s.there.Load()) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.settle(s)
		m.change()
	}
}

// forgotten are the readers of a seat that is forgotten: whoever comes in between
// does not make them positive.
const forgotten = math.MinInt32 / 2

// settle forgets s, unless there is something to know of it. It is called with mu held.
func (m *room) settle(s *seat) {
	if !m.loaded.Load() || s.there.Load() || s.evicted || s.saved.Evicted || s.going || s.pinned || s.holds > 0 {
		return
	}
	if s.readers.CompareAndSwap(0, forgotten) {
		m.seats.CompareAndDelete(s.digest, s)
	}
}

// load ends the account of what was there at the start.
func (m *room) load() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loaded.Store(true)
	for _, s := range m.seats.Range {
		m.settle(s.(*seat))
	}
}
