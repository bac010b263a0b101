package store

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/modproxy/modproxy"
)

// full returns a room of 1000 bytes with one blob, which uses all of them.
func full() (*room, modproxy.Digest) {
	m := newRoom(1000)
	m.load([]counted{{digest: modproxy.Digest{1}, size: 1000}})
	return m, modproxy.Digest{1}
}

// other is a blob that is not stored.
var other = []Content{{Size: 1000}}

// A call that waits for room is notified when the protection of a blob ends.
func TestReleaseIsAChange(t *testing.T) {
	m, d := full()
	if err := m.beginKeep(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	_, victims, changed, what := m.reserve(other, true)
	if victims != nil || what != waitReaders {
		t.Fatalf("%d victims, waiting %d, while it is needed", len(victims), what)
	}
	m.endKeep(d)
	select {
	case <-changed:
	default:
		t.Error("it is not told")
	}
	if _, victims, _, _ := m.reserve(other, true); len(victims) != 1 {
		t.Errorf("then %d victims", len(victims))
	}
}

// Waiting for a removal ends with the context.
func TestHoldEndsWithItsContext(t *testing.T) {
	m, d := full()
	if _, victims, _, _ := m.reserve(other, true); len(victims) != 1 {
		t.Fatal("nothing is going")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.beginKeep(ctx, d); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// A blob that is used all the time is evicted if no other blob can be.
func TestVictimInUse(t *testing.T) {
	m, d := full()
	var end atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !end.Load() {
			m.edit(d, m.use)
		}
	}()
	for i := range 20_000 {
		_, victims, _, _ := m.reserve(other, true)
		if len(victims) != 1 {
			t.Errorf("round %d: %d victims", i, len(victims))
			break
		}
		m.endRemoval(d, 0)
	}
	end.Store(true)
	<-ended
}

// A blob that is removed while the room is still being loaded does not count.
func TestRemovedWhileCounting(t *testing.T) {
	m := newRoom(1000)
	a, b, c := modproxy.Digest{1}, modproxy.Digest{2}, modproxy.Digest{3}
	found := []counted{{digest: a, size: 100}, {digest: b, size: 100}, {digest: c, size: 100}}
	m.beginRemoval(a)
	m.isGone(a, m.stores(a))
	m.endRemoval(a, 0)
	m.keep(b, 100, new(int64))
	m.load(found)
	if m.kept != 200 || m.idle != 200 || len(m.entries) != 2 {
		t.Errorf("%d kept, %d idle, of %d", m.kept, m.idle, len(m.entries))
	}
}

// A blob that was lost unnoticed still has its room when it is stored again.
func TestLostBlobHasItsRoom(t *testing.T) {
	m, d := full()
	if err := m.beginKeep(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	reserved, _, _, what := m.reserve([]Content{{Digest: d, Size: 1000}}, true)
	m.keep(d, 1000, &reserved)
	m.release(&reserved)
	m.endKeep(d)
	if m.kept != 1000 || m.reserved != 0 || what != waitNot {
		t.Errorf("%d kept, %d reserved, waiting %d", m.kept, m.reserved, what)
	}
}

// BenchmarkReserveInVain measures the unsuccessful search for room after each reader that ends, among 100,000 blobs that
// may not be evicted.
func BenchmarkReserveInVain(b *testing.B) {
	const blobs = 100_000
	m := newRoom(blobs)
	var list []counted
	for i := range blobs {
		list = append(list, counted{digest: modproxy.Digest{byte(i), byte(i >> 8), byte(i >> 16)}, size: 1})
	}
	m.load(list)
	for _, blob := range list {
		m.beginRead(blob.digest)
	}
	b.ReportAllocs()
	one := []Content{{Digest: modproxy.Digest{31: 1}, Size: 1}}
	for b.Loop() {
		if _, victims, _, waiting := m.reserve(one, true); victims != nil || waiting != waitReaders {
			b.Fatalf("%d victims, waiting %d", len(victims), waiting)
		}
	}
}

// BenchmarkLoad counts 100,000 blobs, as at every start.
func BenchmarkLoad(b *testing.B) {
	var list []counted
	for i := range 100_000 {
		list = append(list, counted{digest: modproxy.Digest{byte(i), byte(i >> 8), byte(i >> 16)}, size: 1})
	}
	b.ReportAllocs()
	for b.Loop() {
		newRoom(0).load(list)
	}
}
