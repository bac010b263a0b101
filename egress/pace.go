package egress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// pace reads from a network and gives up when too little comes. What counts is
// the time spent waiting for bytes: a reader that takes its time costs nothing.
type pace struct {
	r      io.Reader
	need   int64         // bytes in each window
	window time.Duration // of waiting
	abort  func()        // makes a Read of r that is under way return

	mu      sync.Mutex
	got     int64         // in this window
	left    time.Duration // of this window
	since   time.Time     // when the Read under way began to count
	waiting *time.Timer   // nil while no Read is under way
	slow    bool
	aborted bool
}

// newPace wants rate bytes per second, on average over a window.
func newPace(r io.Reader, rate int64, window time.Duration, abort func()) *pace {
	need := max(int64(float64(rate)*window.Seconds()), 1)
	return &pace{r: r, need: need, window: window, left: window, abort: abort}
}

func (p *pace) Read(b []byte) (int, error) {
	if !p.begin() {
		return 0, p.err()
	}
	n, err := p.r.Read(b)
	if p.end(int64(n)) {
		return n, err
	}
	if err == io.EOF && !p.aborted { // late, but whole; after an abort even an end proves nothing
		return n, err
	}
	return n, p.err()
}

func (p *pace) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slow {
		return false
	}
	p.since = time.Now()
	p.waiting = time.AfterFunc(p.left, p.expire)
	return true
}

// end counts n bytes and reports whether that is quick enough.
func (p *pace) end(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting.Stop()
	p.waiting = nil
	p.got += n
	p.left -= time.Since(p.since)
	if p.left <= 0 {
		p.turn()
	}
	return !p.slow
}

// expire ends a window in the middle of a Read.
func (p *pace) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil || time.Since(p.since) < p.left { // of a Read that is over
		return
	}
	p.turn()
	if p.slow {
		p.aborted = true
		p.abort()
		return
	}
	p.since = time.Now()
	p.waiting.Reset(p.left)
}

// turn judges the window that has passed and begins the next.
func (p *pace) turn() {
	p.slow = p.slow || p.got < p.need
	p.got, p.left = 0, p.window
}

func (p *pace) err() error {
	return fmt.Errorf("%w: less than %d bytes in %v", ErrTooSlow, p.need, p.window)
}
