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

// room is the account of blobs and their bytes, from the reservation of their bytes until their removal. It chooses the
// next blobs to evict. It only saves work: [Blobs] decides whether a blob can be removed.
type room struct {
	limit int64           // in bytes; zero: no limit
	turn  slots.Semaphore // has one slot, held while making room: one goroutine at a time decides which blobs are evicted

	mu       sync.Mutex // guards the fields below, and the entries
	loaded   bool       // the account contains the blobs from earlier runs
	entries  map[modproxy.Digest]*entry
	order    list.List // of *entry: the movable ones, most recently used first
	kept     int64     // bytes
	movable  int64     // part of kept that may be evicted now or later
	idle     int64     // part of movable that may be evicted now
	reserved int64
	aside    int64                         // bytes in the quarantine
	writers  int                           // reservations in progress
	used     map[modproxy.Digest]time.Time // blobs used since uses were last written
	changed  chan struct{}                 // closed when room may be available, or when a removal has ended; nil if nothing waits for it
}

// entry describes a blob that is stored or in use.
type entry struct {
	digest     modproxy.Digest
	size       int64 // in bytes; zero unless the blob is stored
	kept       bool
	removed    bool // before the room was loaded
	pinned     bool // known to be pinned, so not evicted
	last       bool // known to be evicted after all others
	unreadable bool // the last attempt to read it failed
	readers    int
	keeps      int           // calls of Keep and Hold that protect it
	removals   int           // in progress
	stores     int           // how often it was stored since the entry exists
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

// update is like edit; the caller holds mu.
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

// beginRead counts a reader until endRead. It reports whether the blob was unreadable before.
func (m *room) beginRead(d modproxy.Digest) (unreadable bool) {
	m.edit(d, func(e *entry) {
		e.readers++
		m.use(e)
		unreadable = e.unreadable
	})
	return unreadable
}

func (m *room) endRead(d modproxy.Digest) { m.edit(d, func(e *entry) { e.readers-- }) }

// use records a use of a blob now. The caller holds mu.
func (m *room) use(e *entry) {
	m.used[e.digest] = time.Now()
	if e.place != nil {
		m.order.MoveToFront(e.place)
	}
}

// has reports whether a blob existed when blobs were last counted, or was stored since.
func (m *room) has(d modproxy.Digest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[d]
	return e != nil && e.kept
}

// counted is a blob found in the storage. The storage may contain very many, and counted is half as large as
// [BlobInfo].
type counted struct {
	digest modproxy.Digest
	size   int64 // in bytes
	used   int64 // last use, in Unix microseconds
}

// load adds the blobs found in the storage to the account. They are sorted by last use, latest first.
func (m *room) load(found []counted) {
	for part := range slices.Chunk(found, 64) { // readers and writers run between the parts
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

// beginKeep protects a blob from removal until endKeep. It waits for a removal in progress.
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

// wake notifies all waiting calls. The caller holds mu.
func (m *room) wake() {
	if m.changed != nil { // nil: no call waits
		close(m.changed)
		m.changed = nil
	}
}

// change returns a channel that wake closes. The caller holds mu.
func (m *room) change() <-chan struct{} {
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.changed
}

// beginRemoval marks blobs as being removed until endRemoval. It returns false if one of them is protected by
// beginKeep.
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

// stores returns how often a blob that is being removed was stored.
func (m *room) stores(d modproxy.Digest) (n int) {
	m.edit(d, func(e *entry) { n = e.stores })
	return n
}

// isGone records that a blob that is being removed does not exist. If the blob was stored more often than stores, isGone changes nothing
// and returns false, because the blob may exist again.
func (m *room) isGone(d modproxy.Digest, stores int) (ok bool) {
	m.edit(d, func(e *entry) {
		if ok = e.stores == stores; ok {
			e.kept, e.removed, e.size, e.pinned, e.unreadable = false, !m.loaded, 0, false, false
		}
	})
	return ok
}

// endRemoval ends a removal. aside is the number of bytes that it has moved to the quarantine, where they still count.
func (m *room) endRemoval(d modproxy.Digest, aside int64) {
	m.edit(d, func(e *entry) {
		e.removals--
		m.aside += aside
		m.wake()
	})
}

// reserve reserves the bytes of blobs that do not count yet. The caller protects the blobs. If the bytes are not free,
// reserve returns the blobs whose removal frees them, with their removal begun, or a channel that is closed when more
// blobs may be removable. Without turn, the caller gets only bytes that need no eviction.
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

// waiting is the condition that a reservation waits for.
type waiting int

const (
	waitNot     waiting = iota // the bytes are reserved, or the removal of victims frees them
	waitWriters                // other reservations, which are certain to end
	waitReaders                // readers, which may take any time
	waitNever                  // waiting does not help, or the caller does not hold turn
)

// release returns the rest of a reservation.
func (m *room) release(reserved *int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved -= *reserved
	m.writers--
	m.wake()
}

// keep records that a blob is stored. Bytes that did not count yet are taken from reserved.
func (m *room) keep(d modproxy.Digest, size int64, reserved *int64) {
	m.edit(d, func(e *entry) {
		part := min(max(0, size-e.size), *reserved)
		m.reserved -= part
		*reserved -= part
		e.kept, e.size = true, size
		e.stores++
	})
}

// victims begins the removal of the blobs that choose returns. The caller holds mu.
func (m *room) victims(n int64, most int) (list []modproxy.Digest) {
	for _, b := range m.choose(n, most) {
		m.update(b.Digest, func(e *entry) { e.removals++ })
		list = append(list, b.Digest)
	}
	return list
}

// choose returns the least recently used blobs that may be evicted now and that have n bytes together, at most most
// blobs. Blobs that are evicted last come at the end. The caller holds mu.
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
