package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// storm lets clients install new modules. Upstream must get one request for each package.
func (w *world) storm(ctx context.Context, r *row) error {
	clients, modules, size := w.many(200, 20), w.many(50, 5), w.many(1<<20, 64<<10)
	return w.running(ctx, 10, "", r, func(p *proxy, seen *watch) error {
		p.up.roundTo.Store(int64(w.lasting(300*time.Millisecond) / time.Duration(w.many(1, 10))))
		var said outcome
		var packages histogram
		var done sync.WaitGroup
		seen.reset()
		began := time.Now()
		ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		for i := range clients {
			done.Go(func() {
				targets := p.targets("storm", modules, size, 1)
				random := rand.New(rand.NewPCG(2, uint64(i)))
				random.Shuffle(modules, func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
				c := &conn{address: p.address, timeout: time.Minute}
				defer c.close()
				for _, t := range targets {
					for _, k := range []kind{versions, download, archive} {
						w.stormed(ctx, c, t, k, &said, &packages)
					}
				}
			})
		}
		done.Wait()
		took := time.Since(began)
		distinct, all := p.up.fetched()
		r.add("packages fetched", float64(all), "")
		if distinct != int64(modules) || all != distinct {
			r.wrong(fmt.Sprintf("upstream was asked %d times for %d of %d packages", all, distinct, modules))
		}
		r.most("versions and download, slowest", said.took.quantile(1).Seconds(), " s", 9)
		r.add("packages, slowest", packages.quantile(1).Seconds(), " s")
		r.most("all done", took.Seconds(), " s", 30)
		r.add("told to come back", float64(said.told.Load()), "")
		r.add("sent", mb(said.bytes.Load())/took.Seconds(), " MB/s")
		if n := said.good.Load(); n != int64(3*clients*modules) {
			r.wrong(fmt.Sprintf("%d of %d questions were answered", n, 3*clients*modules))
		}
		r.wrong(said.problems.list()...)
		return ctx.Err()
	}, "MODPROXY_EGRESS_HEDGING=false") // which would send requests again that a busy registry keeps waiting
}

// stormed repeats one request until it is answered, as clients do that are told to retry.
func (w *world) stormed(ctx context.Context, c *conn, t *target, k kind, said *outcome, packages *histogram) {
	for range 20 {
		r, wrong := t.ask(ctx, c, k)
		if wrong != nil {
			said.problems.add("%v", wrong)
			return
		}
		if k == archive {
			packages.add(r.took)
		} else {
			said.took.add(r.took)
		}
		switch {
		case r.err == nil && r.status < 300:
			said.good.Add(1)
			said.bytes.Add(r.size)
			return
		case r.err == nil && r.header.Get("Retry-After") != "":
			said.told.Add(1)
			if !pause(ctx, time.Second) {
				return
			}
		default:
			said.problems.add("%s of %s: %v", k, t.module, &r)
			return
		}
	}
	said.problems.add("%s of %s: told to come back again and again", k, t.module)
}

// An intake installs new modules until it is ended, and records the packages that clients received.
type intake struct {
	p     *proxy
	group string
	size  int
	next  atomic.Int64
	took  histogram

	mu    sync.Mutex
	given []*target
}

// one installs the next module. A module that was not served is dropped.
func (in *intake) one(ctx context.Context, c *conn) error {
	n := int(in.next.Add(1))
	t := &target{module: moduleName(in.group, n, in.size, 1), version: "1.0.0", token: in.p.tokens[n%readers]}
	began := time.Now()
	if err := t.install(ctx, c); err != nil {
		return err
	}
	in.took.add(time.Since(began))
	in.mu.Lock()
	defer in.mu.Unlock()
	in.given = append(in.given, t)
	return nil
}

func (in *intake) all() []*target {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.given[:len(in.given):len(in.given)]
}

// ingest installs as fast as possible, and kills modproxy meanwhile: all packages that clients received must be stored.
func (w *world) ingest(ctx context.Context, r *row) error {
	return w.running(ctx, 1000, "", r, func(p *proxy, seen *watch) error {
		in := &intake{p: p, group: "new", size: 100 << 10}
		ending, killed := context.WithCancel(ctx)
		defer killed()
		var failed problems
		var clients sync.WaitGroup
		seen.reset()
		began := time.Now()
		for range 16 {
			clients.Go(func() {
				c := &conn{address: p.address, timeout: 30 * time.Second}
				defer c.close()
				for ending.Err() == nil {
					if err := in.one(ending, c); err != nil && ending.Err() == nil {
						failed.add("%v", err)
						pause(ending, 10*time.Millisecond)
					}
				}
			})
		}
		pause(ctx, w.lasting(time.Minute))
		// Within the second of the short form, a busy machine may not give a single module to a client.
		for len(in.all()) == 0 && time.Since(began) < time.Minute && pause(ctx, 50*time.Millisecond) {
		}
		took, n := time.Since(began), len(in.all())
		r.wrong(failed.list()...)
		killed() // they may see the end of the process
		p.kill()
		clients.Wait()
		r.least("kept durably", float64(n)/took.Seconds(), "/s", 50)
		r.most("p99", ms(in.took.quantile(.99)), " ms", 500)
		r.add("p50", ms(in.took.quantile(.5)), " ms")
		if n == 0 {
			r.wrong("no module was given to a client")
		}
		return errors.Join(ctx.Err(), w.afterKill(ctx, p, r, in.all()))
	})
}

// afterKill starts modproxy without a registry: packages that clients received are served with the same bytes.
func (w *world) afterKill(ctx context.Context, p *proxy, r *row, given []*target) error {
	ready, err := p.start(ctx, "--offline")
	if err != nil {
		return err
	}
	r.most("ready after that", ready.Seconds(), " s", 5)
	if _, err := p.each(ctx, 8, given, func(c *conn, t *target) error { return t.install(ctx, c) }); err != nil {
		r.wrong("after the kill: " + err.Error())
	}
	if err := p.stop(); err != nil {
		return err
	}
	wrong, err := p.whole(ctx, given)
	r.wrong(wrong...)
	r.note("%d packages that clients were given before the kill are there after it", len(given))
	return err
}
