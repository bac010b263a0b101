package egress

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// drip writes size bytes every interval, times times.
func drip(w *io.PipeWriter, size int, interval time.Duration, times int) {
	for range times {
		time.Sleep(interval)
		if _, err := w.Write(bytes.Repeat([]byte("x"), size)); err != nil {
			return
		}
	}
	w.Close()
}

func TestPace(t *testing.T) {
	const window = 30 * time.Second
	for _, tt := range []struct {
		name     string
		size     int
		interval time.Duration
		times    int
		slow     bool
		within   time.Duration
	}{
		{"quick", 2000, time.Second, 100, false, 100 * time.Second},
		{"just enough", 1100, time.Second, 100, false, 100 * time.Second},
		{"one byte a second", 1, time.Second, 1000, true, window},
		{"silence", 1, time.Hour, 1, true, window},
		{"a pause within the window", 29 * 1024 * 2, 29 * time.Second, 5, false, 145 * time.Second},
		{"small and slow, but whole", 1, 20 * time.Second, 1, false, 20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // an abort looks like a regular end here
				r, w := io.Pipe()
				var writer sync.WaitGroup
				writer.Go(func() { drip(w, tt.size, tt.interval, tt.times) })
				defer writer.Wait()
				defer r.Close()
				begin := time.Now()
				n, err := io.Copy(io.Discard, newPace(r, 1024, window, func() { w.Close() }))
				if errors.Is(err, ErrTooSlow) != tt.slow || err != nil && !tt.slow {
					t.Errorf("after %v and %d bytes: got %v", time.Since(begin), n, err)
				}
				if took := time.Since(begin); took > tt.within {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestPaceStopsAfterAQuickStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		var writer sync.WaitGroup
		writer.Go(func() {
			w.Write(make([]byte, 1<<20))
			drip(w, 1, time.Second, 1000)
		})
		defer writer.Wait()
		defer r.Close()
		begin := time.Now()
		_, err := io.Copy(io.Discard, newPace(r, 1024, 30*time.Second, func() { r.CloseWithError(io.ErrClosedPipe) }))
		if took := time.Since(begin); !errors.Is(err, ErrTooSlow) || took > time.Minute {
			t.Errorf("got %v after %v", err, took)
		}
	})
}

func TestPaceLetsTheReaderTakeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(bytes.NewReader(make([]byte, 100)), 1024, 30*time.Second, func() { t.Error("aborted") })
		for range 100 {
			time.Sleep(time.Minute)
			if _, err := p.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
