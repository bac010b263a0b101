package store

import (
	"container/list"
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/modproxy/modproxy"
)

// room keeps account of the blobs and of their bytes, and knows which are the next ones
// to be evicted. A blob counts once, however many records need it, from when room for
// it was reserved until it is gone.
//
// What it knows only saves work: whether a blob can be removed is decided by [Blobs].
type room struct {
	limit int64 // in bytes; zero: no bound

	turn *semaphore.Weighted // taken while room is made: one at a time decides what goes

	mu       sync.Mutex // guards what follows, and the entries
	loaded   bool       // the account has what was there at the start
	entries  map[modproxy.Digest]*entry
	order    list.List // of *entry: those that may be evicted sooner or later, the one that was used last in front
	sum      amounts
	reserved int64
	aside    int64                         // bytes that were set aside
	writers  int                           // claims that have not ended
	asides   int                           // how often something was set aside
	used     map[modproxy.Digest]time.Time // blobs that were used since that was last written down
	changed  chan struct{}                 // closed when there may be room, or an entry is no longer going; nil: nobody waits
}

// entry is what is known of a blob that is there, or that somebody works on.
type entry struct {
	digest  modproxy.Digest
	size    int64 // in bytes; zero unless it is there
	there   bool
	left    bool // it was removed while what is there was counted
	pinned  bool // it is not evicted, as far as is known
	suspect bool // it could not be read
	readers int
	holds   int           // those that need it to stay, and do not only read it
	going   int           // those that are removing it
	place   *list.Element // in room.order
	counted amounts       // in room.sum
}

// amounts are numbers of bytes.
type amounts struct {
	there   int64
	movable int64 // of it, what may be evicted now or later
	idle    int64 // of that, what may be evicted now
}

func newRoom(limit int64) *room {
	return &room{
		limit: limit, turn: semaphore.NewWeighted(1),
		entries: map[modproxy.Digest]*entry{}, used: map[modproxy.Digest]time.Time{},
	}
}

// entry returns the entry of d, which it makes if there is none. It is called with mu
// held, and settle after it.
func (m *room) entry(d modproxy.Digest) *entry {
	e := m.entries[d]
	if e == nil {
		e = &entry{digest: d}
		m.entries[d] = e
	}
	return e
}

// settle follows a change of e. It is called with mu held.
func (m *room) settle(e *entry) {
	movable := e.there && !e.pinned
	if movable && e.place == nil {
		e.place = m.order.PushFront(e)
	} else if !movable && e.place != nil {
		m.order.Remove(e.place)
		e.place = nil
	}
	before := e.counted
	e.counted = amounts{there: e.size}
	if movable {
		e.counted.movable = e.size
	}
	if e.idle() {
		e.counted.idle = e.size
	}
	m.sum.there += e.counted.there - before.there
	m.sum.movable += e.counted.movable - before.movable
	m.sum.idle += e.counted.idle - before.idle
	if before.there > e.counted.there || before.idle < e.counted.idle {
		m.change()
	}
	if m.loaded && !e.there && e.readers == 0 && e.holds == 0 && e.going == 0 {
		delete(m.entries, e.digest)
	}
}

// idle reports whether e may be evicted now. It is called with mu held.
func (e *entry) idle() bool {
	return e.there && !e.pinned && e.readers == 0 && e.holds == 0 && e.going == 0
}

// edit calls change with the entry of d.
func (m *room) edit(d modproxy.Digest, change func(*entry)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(d)
	change(e)
	m.settle(e)
}

// read counts a reader until unread, and reports whether the blob could not be read
// before.
func (m *room) read(d modproxy.Digest) (suspect bool) {
	m.edit(d, func(e *entry) {
		e.readers++
		m.use(e)
		suspect = e.suspect
	})
	return suspect
}

func (m *room) unread(d modproxy.Digest) { m.edit(d, func(e *entry) { e.readers-- }) }

// touch records that the blob of d is used now.
func (m *room) touch(d modproxy.Digest) { m.edit(d, m.use) }

// use is called with mu held.
func (m *room) use(e *entry) {
	m.used[e.digest] = time.Now()
	if e.place != nil {
		m.order.MoveToFront(e.place)
	}
}

// load ends the account of what is there, of which list was found.
func (m *room) load(list []BlobInfo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range list { // the one that was used last comes first
		e := m.entry(b.Digest)
		if e.there || e.left {
			continue
		}
		e.there, e.size = true, b.Size
		m.settle(e)
		m.order.MoveToBack(e.place)
	}
	m.loaded = true
	for _, e := range m.entries {
		e.left = false
		m.settle(e)
	}
}

// hold keeps the blob of d from being evicted or collected until unhold. One that is
// being removed is waited for, unless ctx ends.
func (m *room) hold(ctx context.Context, d modproxy.Digest) error {
	for {
		var going <-chan struct{}
		m.edit(d, func(e *entry) {
			if e.going > 0 {
				going = m.next()
			} else {
				e.holds++
			}
		})
		if going == nil {
			return nil
		}
		select {
		case <-going:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *room) unhold(d modproxy.Digest) { m.edit(d, func(e *entry) { e.holds-- }) }

// next returns what is closed at the next change. It is called with mu held.
func (m *room) next() <-chan struct{} {
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.changed
}

// change is called with mu held.
func (m *room) change() {
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

// condemn marks blobs as going, unless one of them is held.
func (m *room) condemn(list ...modproxy.Digest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range list {
		if e := m.entries[d]; e != nil && e.holds > 0 {
			return false
		}
	}
	for _, d := range list {
		e := m.entry(d)
		e.going++
		m.settle(e)
	}
	return true
}

// spare is the end of what condemn or victims began. The blob is not there any more if
// gone is true. If it was set aside it counts on.
func (m *room) spare(d modproxy.Digest, gone, aside bool) {
	m.edit(d, func(e *entry) {
		e.going--
		if gone {
			if aside {
				m.aside += e.size
				m.asides++
			}
			e.there, e.left, e.size, e.pinned, e.suspect = false, !m.loaded, 0, false, false
		}
		m.change()
	})
}

// claim reserves bytes for blobs, which the caller holds, as far as they do not count
// yet, if that many are free. Otherwise it returns the blobs whose removal frees them,
// which are going from then on. If those that may go now do not free enough, changed is
// closed when that may be different. What may be waited for is decided at the same
// moment as what may go. Without its turn the caller gets no more than what is always
// free.
func (m *room) claim(blobs []Content, turn bool) (n int64, victims []modproxy.Digest, changed <-chan struct{}, what waiting) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range blobs {
		n += b.Size
		if e := m.entries[b.Digest]; e != nil {
			n -= min(b.Size, e.size)
		}
	}
	over := m.sum.there + m.aside + m.reserved + n - m.limit
	if m.limit == 0 || n == 0 || turn && over <= 0 {
		m.reserved += n
		m.writers++
		return n, nil, nil, waitNot
	}
	switch {
	case !turn:
		return 0, nil, nil, waitTurn
	case m.sum.idle >= over:
		return 0, m.victims(over, len(m.entries)), nil, waitNot
	case m.writers > 0:
		return 0, nil, m.next(), waitWriters
	case m.sum.movable >= over:
		return 0, nil, m.next(), waitReaders
	}
	return 0, nil, nil, waitNever
}

// waiting is what a claim waits for.
type waiting int

const (
	waitNot     waiting = iota // the bytes are reserved, or victims free them
	waitTurn                   // others who make room
	waitWriters                // reservations, which are sure to come to an end
	waitReaders                // readers, which may take any time
	waitNever                  // waiting would not help
)

// victims returns what choose does. They are going from now on. It is called with mu
// held.
func (m *room) victims(n int64, most int) (list []modproxy.Digest) {
	for _, b := range m.choose(n, most) {
		e := m.entry(b.Digest)
		e.going++
		m.settle(e)
		list = append(list, b.Digest)
	}
	return list
}

// choose returns the blobs that may go, were not used for longest and have n bytes
// together, but not more than most. It is called with mu held.
func (m *room) choose(n int64, most int) (list []BlobInfo) {
	for place := m.order.Back(); place != nil && n > 0 && len(list) < most; place = place.Prev() {
		if e := place.Value.(*entry); e.idle() {
			n -= e.size
			list = append(list, BlobInfo{Digest: e.digest, Size: e.size})
		}
	}
	return list
}

// busy returns the blobs that may be evicted later, but not now.
func (m *room) busy() (list []modproxy.Digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for d, e := range m.entries {
		if e.place != nil && !e.idle() {
			list = append(list, d)
		}
	}
	return list
}

// keep records that a blob is there. Bytes that did not count are taken from reserved.
func (m *room) keep(d modproxy.Digest, size int64, reserved *int64) {
	m.edit(d, func(e *entry) {
		part := min(max(0, size-e.size), *reserved)
		m.reserved -= part
		*reserved -= part
		e.there, e.size = true, size
	})
}

// end is the end of a claim, and gives back what is left of it.
func (m *room) end(reserved *int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved -= *reserved
	m.writers--
	m.change()
}
