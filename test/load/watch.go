package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// A sample has the resources of the proxy at one moment.
type sample struct {
	at         time.Time
	life       int // number of the process, which may be restarted
	rss        int64
	fds        int
	children   int
	goroutines int // 0 if unknown
}

// A watch samples the resources of the proxy until it is ended.
type watch struct {
	p     *proxy
	row   *row
	every time.Duration
	stop  context.CancelFunc
	done  sync.WaitGroup
	once  sync.Once

	mu      sync.Mutex
	samples []sample
	peak    int64
	cpu     time.Duration // of ended processes and the current one
	pid     int
	begun   time.Duration // its CPU time at the first sample
	life    int
	began   time.Time
}

// watch begins to watch. The result goes to the row.
func (p *proxy) watch(r *row) *watch {
	ctx, stop := context.WithCancel(context.Background())
	w := &watch{p: p, row: r, every: 500 * time.Millisecond, stop: stop, began: time.Now()}
	w.look(ctx)
	w.done.Go(func() {
		for pause(ctx, w.interval()) {
			w.look(ctx)
		}
	})
	return w
}

// interval grows with the number of samples, so that hours fit in memory.
func (w *watch) interval() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.every + time.Since(w.began)/1000
}

func (w *watch) look(ctx context.Context) {
	server := w.p.server.Load()
	if server == nil {
		return
	}
	pid := server.ID()
	used := rig.Ticks(pid, 2)
	if used == 0 {
		return
	}
	c := &conn{address: w.p.address, timeout: 5 * time.Second}
	defer c.close()
	s := sample{at: time.Now(), goroutines: w.p.goroutines(ctx, c)}
	s.rss = rig.InStatus(pid, "VmRSS")
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	s.fds, s.children = len(fds), len(rig.Children(pid))
	w.mu.Lock()
	defer w.mu.Unlock()
	if pid != w.pid {
		w.pid, w.life, w.begun = pid, w.life+1, used
	} else {
		w.cpu += used - w.begun
		w.begun = used
	}
	s.life = w.life
	w.peak = max(w.peak, rig.InStatus(pid, "VmHWM"))
	if s.rss > 0 {
		w.samples = append(w.samples, s)
	}
}

// reset restarts the figures of the row.
func (w *watch) reset() {
	w.mu.Lock()
	w.samples, w.peak, w.cpu, w.began = nil, 0, 0, time.Now()
	server := w.p.server.Load()
	w.mu.Unlock()
	rig.ResetPeak(server.ID())
	w.look(context.Background())
}

// all returns the samples.
func (w *watch) all() []sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.samples
}

// end ends the watch. The last sample, a moment after the load, is that of the idle proxy.
func (w *watch) end() {
	w.once.Do(func() {
		w.stop()
		w.done.Wait()
		took := time.Since(w.began)
		cpu := w.cpu
		time.Sleep(200 * time.Millisecond)
		w.look(context.Background())
		w.mu.Lock()
		defer w.mu.Unlock()
		w.row.usage(w.samples, w.peak, float64(cpu)/float64(took))
	})
}

// goroutines asks the proxy for the number of its goroutines.
func (p *proxy) goroutines(ctx context.Context, c *conn) int {
	r := c.ask(ctx, "/-/metrics", p.operator, true)
	if r.status != http.StatusOK {
		return 0
	}
	text, err := plain(r)
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("\ngo_goroutines "))
	number, _, _ := bytes.Cut(rest, []byte("\n"))
	n, _ := strconv.Atoi(string(number))
	return n
}
