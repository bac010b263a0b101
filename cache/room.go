package cache

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy"
)

// room keeps account of the blobs and of the bytes that they have, and knows
// which are the next to go. It counts each blob once, however many versions have
// it. Bytes count from when room for them was reserved until the blob is gone.
type room struct {
	limit int64 // in bytes; zero: no bound

	// turn has an element while room is made: one at a time decides what goes.
	turn chan struct{}

	// waiting is whether somebody waits for a reader to come to the end.
	waiting atomic.Bool

	loading sync.Mutex
	loaded  atomic.Bool // the account has what was there at the start

	// seats are modproxy.Digest to *seat; a use needs no lock. A seat leaves with mu
	// held, which is why who changes one finds it with mu held, unless it is read,
	// held or going.
	seats sync.Map

	mu       sync.Mutex // guards what follows, and the seats where they say so
	used     int64
	reserved int64
	beside   int64         // what else counts
	asides   int           // how often something was added to that since the start
	writers  int           // fetches that have reserved and have not come to their end
	changed  chan struct{} // closed when there may be room, or a seat is no longer going
	queue    []queued      // the oldest first, as of when it was made
}

// queued is a seat with when it was last used when the queue was made.
type queued struct {
	*seat
	last int64
}

func newRoom(limit int64) *room {
	return &room{limit: limit, turn: make(chan struct{}, 1), changed: make(chan struct{})}
}

// take takes the turn, unless ctx ends; give gives it back.
func (m *room) take(ctx context.Context) (give func(), err error) {
	select {
	case m.turn <- struct{}{}:
		return func() { <-m.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// put is the blob being there.
func (m *room) put(s *seat, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.enter(s, size)
}

// enter is called with mu held.
func (m *room) enter(s *seat, size int64) {
	if s.there.Swap(true) {
		m.used -= s.size
	}
	s.evicted, s.size = false, size
	m.used += size
}

// leave is the blob being there no more, which had that many bytes. It is called
// with mu held.
func (m *room) leave(s *seat) (bytes int64) {
	if s.there.Swap(false) {
		bytes = s.size
	}
	m.used -= bytes
	m.settle(s)
	m.change()
	return bytes
}

// lose is the blob of d being there no more.
func (m *room) lose(d modproxy.Digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leave(m.seat(d))
}

// shelve is the blob of d being there no more, and its bytes counting beside.
func (m *room) shelve(d modproxy.Digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.beside += m.leave(m.seat(d))
	m.asides++
}

// hold keeps the blob of d from being removed until release; one that is being
// removed is waited for, unless ctx ends.
func (m *room) hold(ctx context.Context, d modproxy.Digest) (s *seat, release func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s = m.seat(d); s.going; s = m.seat(d) {
		if err := m.wait(ctx); err != nil {
			return nil, nil, err
		}
	}
	s.holds++
	return s, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		s.holds--
		s.fetched = time.Now()
		m.settle(s)
		m.change()
	}, nil
}

// pin keeps the blob from being evicted, now and later.
func (m *room) pin(s *seat) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.pinned = true
}

// wait waits for a change, unless ctx ends. It is called with mu held, which it gives
// back meanwhile.
func (m *room) wait(ctx context.Context) error {
	changed := m.changed
	m.mu.Unlock()
	defer m.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// change is called with mu held.
func (m *room) change() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// reservation is room for what one fetch writes.
type reservation struct {
	room  *room // nil: nothing is reserved
	bytes int64
}

// claim reserves n bytes for a fetch if they are free. Otherwise it returns the blobs
// whose removal frees them, which are going from then on. If those that may go now do
// not free enough, changed is closed when that may be different. What may be waited
// for is decided at the same moment as what may go: waiting is waitNever if all that
// is not pinned would not be enough either.
func (m *room) claim(n int64, to *reservation) (victims []*seat, changed <-chan struct{}, waiting waiting) {
	m.mu.Lock()
	defer m.mu.Unlock()
	over := m.used + m.beside + m.reserved + n - m.limit
	if m.limit == 0 || over <= 0 {
		m.reserved += n
		m.writers++
		*to = reservation{m, n}
		return nil, nil, waitNot
	}
	if victims = m.victims(over); victims != nil {
		return victims, nil, waitNot
	}
	switch {
	case m.writers > 0:
		return nil, m.changed, waitWriters
	case m.size((*seat).mayGo) >= over:
		return nil, m.changed, waitReaders
	}
	return nil, nil, waitNever
}

// waiting is what a claim waits for.
type waiting int

const (
	waitNot     waiting = iota // the bytes are reserved, or victims free them
	waitWriters                // fetches that are sure to come to an end
	waitReaders                // readers, which may take any time
	waitNever                  // waiting would not help
)

// keep makes what was reserved a blob.
func (res *reservation) keep(s *seat) {
	m := res.room
	m.mu.Lock()
	defer m.mu.Unlock()
	m.enter(s, res.bytes)
	m.reserved -= res.bytes
	res.bytes = 0
}

// end is the end of the fetch.
func (res *reservation) end() {
	m := res.room
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved -= res.bytes
	m.writers--
	m.change()
}

// victims are the blobs that were not used for longest and that have at least n
// bytes together. They are going from now on. There are none when all that may go
// has less. It is called with mu held.
func (m *room) victims(n int64) []*seat {
	for fresh := range 2 {
		var list []*seat
		sum, rest := int64(0), m.queue
		for len(rest) > 0 && sum < n {
			q := rest[0]
			rest = rest[1:]
			// What was used since stands further behind in the next queue; the one that
			// was made just now counts.
			if q.idle() && (fresh > 0 || q.seat.last.Load() == q.last) {
				list = append(list, q.seat)
				sum += q.size
			}
		}
		if sum >= n {
			m.queue = rest
			for _, s := range list {
				s.going = true
			}
			return list
		}
		if fresh > 0 || m.size((*seat).idle) < n {
			break
		}
		m.queue = m.line()
	}
	return nil
}

// size is how many bytes those blobs have for which is returns true. It is called with mu
// held.
func (m *room) size(is func(*seat) bool) (bytes int64) {
	for _, s := range m.seats.Range {
		if s := s.(*seat); is(s) {
			bytes += s.size
		}
	}
	return bytes
}

// line is every blob that is there, the one that was not used for longest first.
// It is called with mu held.
func (m *room) line() []queued {
	var all []queued
	for _, s := range m.seats.Range {
		if s := s.(*seat); s.there.Load() {
			all = append(all, queued{s, s.last.Load()})
		}
	}
	slices.SortFunc(all, func(a, b queued) int {
		return cmp.Or(cmp.Compare(a.last, b.last), bytes.Compare(a.digest[:], b.digest[:]))
	})
	return all
}

// pick is those among seats that may go, and go from now on: the first ones that
// have at least n bytes together, or all, but not more than a storage would mark
// at once.
func (m *room) pick(seats []queued, n int64) (list []*seat, rest []queued) {
	const batch = 1000
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(seats) > 0 && n > 0 && len(list) < batch {
		if s := seats[0].seat; s.idle() {
			s.going = true
			list = append(list, s)
			n -= s.size
		}
		seats = seats[1:]
	}
	return list, seats
}

// gone is the end of what going began.
func (m *room) gone(s *seat, removed, evicted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.going, s.evicted = false, removed && evicted
	if removed {
		m.leave(s)
		return
	}
	m.settle(s)
	m.change()
}
