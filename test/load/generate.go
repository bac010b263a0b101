package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A load sends requests at a constant rate, whether they are answered in time or not. Every connection has its times for requests, and
// the duration of an answer counts from there, so that a request behind a slow answer counts, too. Without a rate, every connection
// sends its next request after the answer.
type load struct {
	address string
	conns   int
	rate    float64       // of all connections, per second
	length  time.Duration // duration of the load
	next    func(*rand.Rand) (*target, kind)
	timeout time.Duration                              // of one answer; 30s if it is 0
	excused func(r reply, asked, ended time.Time) bool // answers that are not errors; may be nil
	apart   func(asked, ended time.Time) bool          // good answers whose duration does not count; may be nil

	result outcome
}

// An outcome is the result of a load.
type outcome struct {
	took     histogram // of good answers, since the time for the request
	waited   histogram // of good answers, since the request
	shed     histogram // of answers to retry later, since the request
	late     histogram // how late requests were sent: the generator's own delay
	good     atomic.Int64
	bytes    atomic.Int64
	told     atomic.Int64 // answers to retry later, with a time
	excused  atomic.Int64
	failed   atomic.Int64
	length   time.Duration
	problems problems
}

// rps is the number of good answers per second.
func (o *outcome) rps() float64 { return float64(o.good.Load()) / o.length.Seconds() }

// problems has the first of some problems, and their number.
type problems struct {
	mu    sync.Mutex
	first []string
	n     int
}

func (p *problems) add(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n++; len(p.first) < 8 {
		p.first = append(p.first, fmt.Sprintf(format, args...))
	}
}

func (p *problems) list() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.first[:len(p.first):len(p.first)]
	if more := p.n - len(p.first); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return list
}

// run sends requests until the time is over, or ctx ends.
func (l *load) run(ctx context.Context) *outcome {
	if l.timeout == 0 {
		l.timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, l.length+l.timeout)
	defer cancel()
	begin := time.Now()
	var group sync.WaitGroup
	for i := range l.conns {
		group.Go(func() { l.client(ctx, i, begin) })
	}
	group.Wait()
	l.result.length = min(time.Since(begin), l.length)
	return &l.result
}

// client is the work of one connection.
func (l *load) client(ctx context.Context, i int, begin time.Time) {
	c := &conn{address: l.address, timeout: l.timeout}
	defer c.close()
	random := rand.New(rand.NewPCG(1, uint64(i)))
	wake := time.NewTimer(0)
	defer wake.Stop()
	for n := 0; ; n++ {
		due, could := time.Now(), time.Now()
		if l.rate > 0 {
			due = begin.Add(time.Duration(float64(n*l.conns+i) / l.rate * float64(time.Second)))
			could = due
			if now := time.Now(); now.After(due) {
				could = now
			}
		}
		if due.Sub(begin) >= l.length || ctx.Err() != nil || time.Since(begin) > l.length {
			return
		}
		if wait := time.Until(due); wait > 0 {
			wake.Reset(wait)
			select {
			case <-wake.C:
			case <-ctx.Done():
				return
			}
		}
		asked := time.Now()
		l.result.late.add(asked.Sub(could))
		t, k := l.next(random)
		r, wrong := t.ask(ctx, c, k)
		if ctx.Err() != nil && r.err != nil {
			return
		}
		l.result.count(l, t, k, r, wrong, due, asked)
	}
}

// count counts one answer.
func (o *outcome) count(l *load, t *target, k kind, r reply, wrong error, due, asked time.Time) {
	ended := asked.Add(r.took)
	switch {
	case wrong != nil:
		o.problems.add("%v", wrong)
	case r.err == nil && r.status < 300:
		o.good.Add(1)
		o.bytes.Add(r.size)
		o.waited.add(r.took)
		if l.apart == nil || !l.apart(due, ended) {
			o.took.add(ended.Sub(due))
		}
	case r.err == nil && (r.status == 503 || r.status == 429) && r.header.Get("Retry-After") != "":
		o.told.Add(1)
		o.shed.add(r.took)
		fallthrough
	default:
		if l.excused != nil && l.excused(r, asked, ended) {
			o.excused.Add(1)
			return
		}
		o.failed.Add(1)
		o.problems.add("%s of %s %s: %v", k, t.module, t.version, &r)
	}
}
