package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A load asks at a constant rate, whether it is answered in time or not: every connection has its moments to ask, and
// how long an answer takes counts from there, so that what waits behind a slow answer counts too. With no rate, every
// connection asks again when it was answered.
type load struct {
	address string
	conns   int
	rate    float64       // of all connections, a second
	length  time.Duration // how long
	next    func(*rand.Rand) (*target, kind)
	timeout time.Duration                              // of one answer; 30s if it is 0
	excused func(r reply, asked, ended time.Time) bool // answers that are no errors; may be nil
	apart   func(asked, ended time.Time) bool          // good answers whose time is not counted; may be nil

	result outcome
}

// An outcome is what came of a load.
type outcome struct {
	took     histogram // of good answers, from when they were to be asked for
	waited   histogram // of good answers, from when they were asked for
	shed     histogram // of answers to come back later, from when they were asked for
	late     histogram // by how much questions were asked later than they could be: the generator's own
	good     atomic.Int64
	bytes    atomic.Int64
	told     atomic.Int64 // to come back later, and when
	excused  atomic.Int64
	failed   atomic.Int64
	length   time.Duration
	problems problems
}

// rps is how many good answers there were in a second.
func (o *outcome) rps() float64 { return float64(o.good.Load()) / o.length.Seconds() }

// problems are the first of the things that are wrong, and how many there are.
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

// run asks until the time is over, or ctx ends.
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

// client is what one connection does.
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
