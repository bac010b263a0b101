package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A level is one kind of load, with its bounds.
type level struct {
	name, load string
	bound      string // the limiting resource
	run        func(*world, context.Context, *row) error
}

var levels = []level{
	{"L1", "steady: 60 % versions, 25 % download, 15 % packages of 64 KiB; 256 connections, 2,000/s, 10 min", "CPU of one request", (*world).steady},
	{"L2", "wide: the same on 1,200 connections at 1,500/s for 2 min, with 3,000 idle ones", "memory of one connection", (*world).wide},
	{"L3", "bulk: 64 streams of 10 MiB for 1 min, with 20 requests for versions a second", "copies to sockets", (*world).bulk},
	{"L4", "cold storm: 200 clients install 50 new modules of 1 MiB, each in an order of its own; the registry is 300 ms away and answers 10 requests at a time", "the registry: 150 requests of 300 ms, 10 at a time; then sending 10 GiB", (*world).storm},
	{"L5", "overload: three times the peak for 1 min, on 2,048 connections, in 512 MiB of memory", "CPU of one request, and of one refusal", (*world).overload},
	{"L6", "catalogue: 10,000 modules of 10 versions, under the load of L1 for 1 min", "pages of the index that are not in memory; one file for each package", (*world).catalogue},
	{"L7", "ingest: 16 clients install new modules of 100 KiB, for 1 min; then it is killed", "flushes to the disk: of the package, the ledger and the index", (*world).ingest},
	{"L8", "soak: the mix of L1 at 500/s on 64 connections and a new module each second, with a fault every five minutes", "what is leaked", (*world).soakFor},
	{"L9", "failing sources: 200 clients for 3 min install modules by archive and by git, and providers, one of ten not cached, from sources 80 ms away; of the requests to the sources 10 % are answered 502, 10 % are reset and 10 % are never answered", "requests without an answer, which are sent again after about 1.5 s", (*world).failing},
}

// each calls do for all targets, with clients in parallel, until one fails. It returns the duration.
func (p *proxy) each(ctx context.Context, clients int, targets []*target, do func(*conn, *target) error) (time.Duration, error) {
	var next atomic.Int64
	var group sync.WaitGroup
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	started := time.Now()
	for range clients {
		group.Go(func() {
			c := &conn{address: p.address, timeout: time.Minute}
			defer c.close()
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(targets) {
					return
				}
				if err := do(c, targets[i]); err != nil {
					fail(err)
				}
			}
		})
	}
	group.Wait()
	return time.Since(started), context.Cause(ctx)
}

// mix requests versions, locations and packages in the proportions of clients.
func mix(targets []*target) func(*rand.Rand) (*target, kind) {
	return func(r *rand.Rand) (*target, kind) {
		t := targets[r.IntN(len(targets))]
		switch n := r.IntN(100); {
		case n < 60:
			return t, versions
		case n < 85:
			return t, download
		}
		return t, archive
	}
}

// only sends one kind of request.
func only(targets []*target, k kind) func(*rand.Rand) (*target, kind) {
	return func(r *rand.Rand) (*target, kind) { return targets[r.IntN(len(targets))], k }
}

// usual are the modules of most levels: 50 modules of four versions. Some packages are read from the disk.
func (w *world) usual(p *proxy) []*target { return p.targets("m", w.many(50, 8), 64<<10, 4) }

// usualLoad is the load of L1.
func (w *world) usualLoad(p *proxy, targets []*target, length time.Duration) *load {
	rate := float64(w.many(2000, 300))
	return &load{address: p.address, conns: 256, rate: rate, length: w.lasting(length), next: mix(targets)}
}

func (w *world) steady(ctx context.Context, r *row) error {
	r.most("RSS peak", 0, " MB", 150)
	return w.running(ctx, 1000, "", r, func(p *proxy, seen *watch) error {
		targets := w.usual(p)
		if err := p.warm(ctx, targets); err != nil {
			return err
		}
		seen.reset()
		l := w.usualLoad(p, targets, 10*time.Minute)
		r.latency(l.run(ctx), 5*time.Millisecond, 50*time.Millisecond, 200*time.Millisecond)
		return ctx.Err()
	})
}

func (w *world) wide(ctx context.Context, r *row) error {
	r.most("RSS peak", 0, " MB", 300)
	return w.running(ctx, 1000, "limits: {connections: 8192}\n", r, func(p *proxy, seen *watch) error {
		targets := w.usual(p)
		if err := p.warm(ctx, targets); err != nil {
			return err
		}
		var idle []net.Conn
		defer func() {
			for _, c := range idle {
				c.Close()
			}
		}()
		for range w.many(3000, 100) {
			c, err := net.DialTimeout("tcp", p.address, 10*time.Second)
			if err != nil {
				return err
			}
			idle = append(idle, c)
		}
		seen.reset()
		l := &load{address: p.address, conns: w.many(1200, 100), rate: float64(w.many(1500, 200)), length: w.lasting(2 * time.Minute), next: mix(targets)}
		r.latency(l.run(ctx), 0, 250*time.Millisecond, 0)
		return ctx.Err()
	})
}

func (w *world) bulk(ctx context.Context, r *row) error {
	r.most("RSS peak", 0, " MB", 150)
	return w.running(ctx, 1000, "", r, func(p *proxy, seen *watch) error {
		small, large := p.targets("m", 4, 64<<10, 4), p.targets("large", w.many(16, 2), 10<<20, 1)
		if err := errors.Join(p.warm(ctx, small), p.warm(ctx, large)); err != nil {
			return err
		}
		seen.reset()
		length := w.lasting(time.Minute)
		probe := &load{address: p.address, conns: 20, rate: 20, length: length, next: only(small, versions)}
		streams := &load{address: p.address, conns: w.many(64, 4), length: length, next: only(large, archive)}
		var group sync.WaitGroup
		group.Go(func() { probe.run(ctx) })
		o := streams.run(ctx)
		group.Wait()
		r.least("sent", mb(o.bytes.Load())/o.length.Seconds(), " MB/s", 500)
		r.add("versions p50", ms(probe.result.took.quantile(.5)), " ms")
		r.most("versions meanwhile, p99", ms(probe.result.took.quantile(.99)), " ms", 100)
		r.note("the generator itself was late by %v at p99", probe.result.late.quantile(.99).Round(10*time.Microsecond))
		r.add("errors", float64(o.failed.Load()+probe.result.failed.Load()), "")
		if o.good.Load() == 0 || probe.result.good.Load() == 0 {
			r.wrong("no question was answered well")
		}
		r.wrong(append(o.problems.list(), probe.result.problems.list()...)...)
		return ctx.Err()
	})
}
