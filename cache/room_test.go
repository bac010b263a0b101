package cache

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
)

// full is a room of 1000 bytes with one blob, which has them all.
func full() (*room, *seat) {
	m := newRoom(1000)
	s := m.seat(modproxy.Digest{1})
	m.put(s, 1000)
	return m, s
}

// Who waits for room is told that a fetch no longer needs what it has fetched.
func TestReleaseIsAChange(t *testing.T) {
	m, s := full()
	_, release, err := m.hold(t.Context(), s.digest)
	if err != nil {
		t.Fatal(err)
	}
	var res reservation
	victims, changed, waiting := m.claim(1000, &res)
	if victims != nil || waiting != waitReaders {
		t.Fatalf("%d victims, waiting %d, while a fetch needs it", len(victims), waiting)
	}
	release()
	select {
	case <-changed:
	default:
		t.Error("it is not told")
	}
	if victims, _, _ := m.claim(1000, &res); len(victims) != 1 {
		t.Errorf("then %d victims", len(victims))
	}
}

// A fetch that ends does not wait for what is being removed.
func TestHoldEndsWithItsContext(t *testing.T) {
	m, s := full()
	if victims, _, _ := m.claim(1000, &reservation{}); len(victims) != 1 {
		t.Fatal("nothing is going")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := m.hold(ctx, s.digest); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// What is used all the time can go, if nothing else can.
func TestVictimInUse(t *testing.T) {
	m, s := full()
	var end atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for at := time.Now(); !end.Load(); at = at.Add(time.Millisecond) {
			s.touch(at)
		}
	}()
	for i := range 20_000 {
		victims, _, _ := m.claim(1000, &reservation{})
		if len(victims) != 1 {
			t.Errorf("round %d: %d victims", i, len(victims))
			break
		}
		m.gone(s, false, false)
	}
	end.Store(true)
	<-ended
}

// Each reader that ends has a fetch look for room again: here among 100,000 blobs, of
// which none may go.
func BenchmarkClaimInVain(b *testing.B) {
	const blobs = 100_000
	m := newRoom(blobs)
	for i := range blobs {
		d := modproxy.Digest{byte(i), byte(i >> 8), byte(i >> 16)}
		s := m.read(d)
		s.touch(time.UnixMilli(int64(i * 7919 % blobs)))
		m.put(s, 1)
	}
	b.ReportAllocs()
	for b.Loop() {
		if victims, _, waiting := m.claim(1, &reservation{}); victims != nil || waiting != waitReaders {
			b.Fatalf("%d victims, waiting %d", len(victims), waiting)
		}
	}
}
