package store

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
)

// full is a room of 1000 bytes with one blob, which has them all.
func full() (*room, modproxy.Digest) {
	m := newRoom(1000)
	m.load([]BlobInfo{{Digest: modproxy.Digest{1}, Size: 1000}})
	return m, modproxy.Digest{1}
}

// Those who wait for room are told that somebody no longer needs what was kept.
func TestReleaseIsAChange(t *testing.T) {
	m, d := full()
	release, err := m.hold(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	victims, changed, what := m.claim(1000)
	if victims != nil || what != waitReaders {
		t.Fatalf("%d victims, waiting %d, while it is needed", len(victims), what)
	}
	release()
	select {
	case <-changed:
	default:
		t.Error("it is not told")
	}
	if victims, _, _ := m.claim(1000); len(victims) != 1 {
		t.Errorf("then %d victims", len(victims))
	}
}

// What is being removed is waited for no longer than the context lasts.
func TestHoldEndsWithItsContext(t *testing.T) {
	m, d := full()
	if victims, _, _ := m.claim(1000); len(victims) != 1 {
		t.Fatal("nothing is going")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.hold(ctx, d); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// What is used all the time can go, if nothing else can.
func TestVictimInUse(t *testing.T) {
	m, d := full()
	var end atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !end.Load() {
			m.touch(d)
		}
	}()
	for i := range 20_000 {
		victims, _, _ := m.claim(1000)
		if len(victims) != 1 {
			t.Errorf("round %d: %d victims", i, len(victims))
			break
		}
		m.spare(d, false, false)
	}
	end.Store(true)
	<-ended
}

// A blob that is removed while the room is still being counted is not counted.
func TestRemovedWhileCounting(t *testing.T) {
	m := newRoom(1000)
	a, b, c := modproxy.Digest{1}, modproxy.Digest{2}, modproxy.Digest{3}
	found := []BlobInfo{{Digest: a, Size: 100}, {Digest: b, Size: 100}, {Digest: c, Size: 100}}
	m.condemn(a)
	m.spare(a, true, false)
	m.keep(b, 100, new(int64))
	m.load(found)
	if m.sum.there != 200 || m.sum.idle != 200 || len(m.entries) != 2 {
		t.Errorf("%+v of %d", m.sum, len(m.entries))
	}
}

// A reader that found a blob before it was removed does not make it count again.
func TestFoundBeforeRemoval(t *testing.T) {
	m, _ := full()
	d := modproxy.Digest{2}
	e, was := m.read(d)
	m.condemn(d)
	m.spare(d, true, false)
	m.found(was, true, 100)
	m.unread(e)
	if m.sum.there != 1000 || len(m.entries) != 1 {
		t.Errorf("%+v of %d", m.sum, len(m.entries))
	}
	e, was = m.read(d) // of another process
	m.found(was, true, 100)
	m.unread(e)
	if m.sum.there != 1100 || m.sum.idle != 1100 {
		t.Errorf("%+v", m.sum)
	}
}

// Each reader that ends has somebody look for room again: here among 100,000 blobs, of
// which none may go.
func BenchmarkClaimInVain(b *testing.B) {
	const blobs = 100_000
	m := newRoom(blobs)
	for i := range blobs {
		d := modproxy.Digest{byte(i), byte(i >> 8), byte(i >> 16)}
		m.load([]BlobInfo{{Digest: d, Size: 1, Used: time.UnixMilli(int64(i * 7919 % blobs))}})
		m.read(d)
	}
	b.ReportAllocs()
	for b.Loop() {
		if victims, _, waiting := m.claim(1); victims != nil || waiting != waitReaders {
			b.Fatalf("%d victims, waiting %d", len(victims), waiting)
		}
	}
}
