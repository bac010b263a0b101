package store

import (
	"container/list"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/slots"
)

// room keeps account of the blobs and of their bytes, from when room for them was reserved until they are removed,
// and knows which are evicted next. What it knows only saves work: whether a blob can be removed is decided by [Blobs].
type room struct {
	limit int64           // in bytes; zero: no bound
	turn  slots.Semaphore // has one slot, taken to make room: one goroutine at a time decides what is evicted

	mu       sync.Mutex // guards what follows, and the entries
	loaded   bool       // the account has what was kept at the start
	entries  map[modproxy.Digest]*entry
	order    list.List // of *entry: those that are movable, the one used last in front
	kept     int64     // bytes
	movable  int64     // of them, those that may be evicted now or later
	idle     int64     // of those, those that may be evicted now
	reserved int64
	aside    int64                         // bytes that were set aside
	writers  int                           // reservations that have not ended
	used     map[modproxy.Digest]time.Time // blobs that were used since that was last written down
	changed  chan struct{}                 // closed when there may be room, or a removal has ended; nil: nobody waits for that
}

// entry is what is known of a blob that is kept or worked on.
type entry struct {
	digest     modproxy.Digest
	size       int64 // in bytes; zero unless it is kept
	kept       bool
	removed    bool // before the room was loaded
	pinned     bool // it is not evicted, as far as is known
	last       bool // it is evicted after all others, as far as is known
	unreadable bool // it could not be read the last time
	readers    int
	keeps      int           // calls of Keep that need it to stay
	removals   int           // that are under way
	place      *list.Element // in room.order
}

func newRoom(limit int64) *room {
	return &room{
		limit: limit, turn: slots.NewSemaphore(1),
		entries: map[modproxy.Digest]*entry{}, used: map[modproxy.Digest]time.Time{},
	}
}

func (e *entry) movable() bool { return e.kept && !e.pinned }

func (e *entry) busy() bool { return e.readers+e.keeps+e.removals > 0 }

// idle reports whether e may be evicted now.
func (e *entry) idle() bool { return e.movable() && !e.busy() }

func (m *room) add(e *entry, sign int64) {
	m.kept += sign * e.size
	if e.movable() {
		m.movable += sign * e.size
	}
	if e.idle() {
		m.idle += sign * e.size
	}
}

// edit calls change with the entry of d.
func (m *room) edit(d modproxy.Digest, change func(*entry)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.update(d, change)
}

// update is edit with mu held.
func (m *room) update(d modproxy.Digest, change func(*entry)) {
	e := m.entries[d]
	if e == nil {
		e = &entry{digest: d}
		m.entries[d] = e
	}
	kept, idle := m.kept, m.idle
	m.add(e, -1)
	change(e)
	m.add(e, 1)
	if e.movable() && e.place == nil {
		e.place = m.order.PushFront(e)
	} else if !e.movable() && e.place != nil {
		m.order.Remove(e.place)
		e.place = nil
	}
	if m.kept < kept || m.idle > idle {
		m.wake()
	}
	if m.loaded && !e.kept && !e.busy() {
		delete(m.entries, d)
	}
}

// beginRead counts a reader until endRead, and reports whether the blob could not be read before.
func (m *room) beginRead(d modproxy.Digest) (unreadable bool) {
	m.edit(d, func(e *entry) {
		e.readers++
		m.use(e)
		unreadable = e.unreadable
	})
	return unreadable
}

func (m *room) endRead(d modproxy.Digest) { m.edit(d, func(e *entry) { e.readers-- }) }

// use records that a blob is used now. It is called with mu held.
func (m *room) use(e *entry) {
	m.used[e.digest] = time.Now()
	if e.place != nil {
		m.order.MoveToFront(e.place)
	}
}

// has reports whether a blob was there when it was last counted, or has come since.
func (m *room) has(d modproxy.Digest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[d]
	return e != nil && e.kept
}

// counted is a blob that was found in the storage. There may be very many: it is half as large as [BlobInfo].
type counted struct {
	digest modproxy.Digest
	size   int64 // in bytes
	used   int64 // when it was last used, in Unix microseconds
}

// load completes the account with what was found in the storage, the blob used last first.
func (m *room) load(found []counted) {
	for part := range slices.Chunk(found, 64) { // readers and writers have their turns between them
		m.mu.Lock()
		for _, b := range part {
			if e := m.entries[b.digest]; e == nil || !e.kept && !e.removed {
				m.update(b.digest, func(e *entry) { e.kept, e.size = true, b.size })
				m.order.MoveToBack(m.entries[b.digest].place)
			}
		}
		m.mu.Unlock()
		runtime.Gosched()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loaded = true
	for d := range m.entries {
		m.update(d, func(e *entry) { e.removed = false })
	}
}

// beginKeep protects a blob from being removed until endKeep. It waits for a removal that is under way.
func (m *room) beginKeep(ctx context.Context, d modproxy.Digest) error {
	for {
		var ended <-chan struct{}
		m.edit(d, func(e *entry) {
			if e.removals > 0 {
				ended = m.change()
			} else {
				e.keeps++
			}
		})
		if ended == nil {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *room) endKeep(d modproxy.Digest) { m.edit(d, func(e *entry) { e.keeps-- }) }

// wake is called with mu held.
func (m *room) wake() {
	if m.changed != nil { // else nobody waits
		close(m.changed)
		m.changed = nil
	}
}

// change returns a channel that wake closes. It is called with mu held.
func (m *room) change() <-chan struct{} {
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.changed
}

// beginRemoval marks blobs as being removed until endRemoval, and reports false if one of them is being kept.
func (m *room) beginRemoval(list ...modproxy.Digest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range list {
		if e := m.entries[d]; e != nil && e.keeps > 0 {
			return false
		}
	}
	for _, d := range list {
		m.update(d, func(e *entry) { e.removals++ })
	}
	return true
}

// endRemoval ends a removal, which has removed the blob or not. One that was set aside goes on to count.
func (m *room) endRemoval(d modproxy.Digest, removed, aside bool) {
	m.edit(d, func(e *entry) {
		e.removals--
		if removed {
			if aside {
				m.aside += e.size
			}
			e.kept, e.removed, e.size, e.pinned, e.unreadable = false, !m.loaded, 0, false, false
		}
		m.wake()
	})
}

// reserve reserves the bytes of blobs, which the caller keeps, as far as they do not count yet. If they are not
// free it returns the blobs whose removal frees them, which has begun, or a channel that is closed when there may be
// more such blobs. Without its turn the caller gets no more than what is always free.
func (m *room) reserve(blobs []Content, turn bool) (n int64, victims []modproxy.Digest, changed <-chan struct{}, what waiting) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range blobs {
		n += b.Size
		if e := m.entries[b.Digest]; e != nil {
			n -= min(b.Size, e.size)
		}
	}
	over := m.kept + m.aside + m.reserved + n - m.limit
	switch {
	case m.limit == 0 || n == 0 || turn && over <= 0:
		m.reserved += n
		m.writers++
		return n, nil, nil, waitNot
	case !turn:
		return 0, nil, nil, waitNever
	case m.idle >= over:
		return 0, m.victims(over, len(m.entries)), nil, waitNot
	case m.writers > 0:
		return 0, nil, m.change(), waitWriters
	case m.movable >= over:
		return 0, nil, m.change(), waitReaders
	}
	return 0, nil, nil, waitNever
}

// waiting is what a reservation waits for.
type waiting int

const (
	waitNot     waiting = iota // the bytes are reserved, or the removal of victims frees them
	waitWriters                // other reservations, which are sure to end
	waitReaders                // readers, which may take any time
	waitNever                  // waiting would not help, or the caller does not have its turn
)

// release gives back what is left of a reservation.
func (m *room) release(reserved *int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved -= *reserved
	m.writers--
	m.wake()
}

// keep records that a blob is kept. Bytes that did not count are taken from reserved.
func (m *room) keep(d modproxy.Digest, size int64, reserved *int64) {
	m.edit(d, func(e *entry) {
		part := min(max(0, size-e.size), *reserved)
		m.reserved -= part
		*reserved -= part
		e.kept, e.size = true, size
	})
}

// victims begins to remove the blobs that choose returns.
func (m *room) victims(n int64, most int) (list []modproxy.Digest) {
	for _, b := range m.choose(n, most) {
		m.update(b.Digest, func(e *entry) { e.removals++ })
		list = append(list, b.Digest)
	}
	return list
}

// choose returns the blobs that may be evicted now, were not used for longest and have n bytes together, but not more
// than most: first those that are not to be the last ones. It is called with mu held, as is victims.
func (m *room) choose(n int64, most int) (list []BlobInfo) {
	for _, last := range []bool{false, true} {
		for place := m.order.Back(); place != nil && n > 0 && len(list) < most; place = place.Prev() {
			if e := place.Value.(*entry); e.idle() && e.last == last {
				n -= e.size
				list = append(list, BlobInfo{Digest: e.digest, Size: e.size})
			}
		}
	}
	return list
}

// busy returns the blobs that may be evicted later, but not now.
func (m *room) busy() (list []modproxy.Digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for place := m.order.Front(); place != nil; place = place.Next() {
		if e := place.Value.(*entry); !e.idle() {
			list = append(list, e.digest)
		}
	}
	return list
}

// unpin forgets which blobs are pinned, and reports whether any was.
func (m *room) unpin() (found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for d, e := range m.entries {
		if e.pinned {
			found = true
			m.update(d, func(e *entry) { e.pinned = false })
		}
	}
	return found
}
