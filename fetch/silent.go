package fetch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
)

const (
	// A fetch is silent after it has waited this long for the first byte from a host.
	silentAfter = 10 * time.Second
	// maxSilent bounds the silent fetches of one host. Further fetches are refused for silentAfter, because fetches from
	// other hosts, even of the same namespace, need their slots.
	maxSilent = 16
)

// silent bounds the fetches that wait for a host that does not answer.
type silent struct {
	mu sync.Mutex
	of map[string]map[*waiting]bool // by host
}

// waiting is a fetch in progress.
type waiting struct {
	began time.Time
	meter *modproxy.Meter
	had   int64 // bytes received before it began
}

// isSilent reports whether w has waited for its first byte for at least silentAfter.
func (w *waiting) isSilent() bool {
	received, receiving := w.meter.Received()
	return receiving && received == w.had && time.Since(w.began) >= silentAfter
}

// enter begins a fetch from the host of s, which ends when the caller calls leave. Its error is a
// [modproxy.RetryLater].
func (q *silent) enter(ctx context.Context, s Source) (leave func(), err error) {
	host := hostOf(s)
	if host == "" {
		return func() {}, nil
	}
	w := &waiting{began: time.Now(), meter: modproxy.MeterOf(ctx)}
	w.had, _ = w.meter.Received()
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for other := range q.of[host] {
		if other.isSilent() {
			n++
		}
	}
	if n >= maxSilent {
		why := fmt.Errorf("%w: %s has not answered %d other requests for %v", modproxy.ErrUnavailable, host, n, silentAfter)
		return nil, &modproxy.RetryLater{After: time.Now().Add(silentAfter), Err: why}
	}
	if q.of == nil {
		q.of = map[string]map[*waiting]bool{}
	}
	if q.of[host] == nil {
		q.of[host] = map[*waiting]bool{}
	}
	q.of[host][w] = true
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.of[host], w)
		if len(q.of[host]) == 0 {
			delete(q.of, host)
		}
	}, nil
}
