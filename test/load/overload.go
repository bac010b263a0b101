package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// overload measures the peak rate of answers, and sends three times as many requests. Other work on the machine changes both: the peak is
// measured before and after the flood.
func (w *world) overload(ctx context.Context, r *row) error {
	const limit = 512 << 20
	p, err := w.newProxy(ctx, 1000, "")
	if err != nil {
		return err
	}
	defer func() { p.close() }()
	group, err := memoryGroup(limit)
	if err != nil {
		r.note("no control group for memory here (%v): GOMEMLIMIT in its place", err)
		p.env = []string{"GOMEMLIMIT=" + strconv.Itoa(limit)}
	} else {
		p.group = filepath.Join(group, "cgroup.procs")
		defer removeGroup(group, p)
	}
	if _, err := p.start(ctx); err != nil {
		return err
	}
	seen := p.watch(r)
	defer seen.end()
	targets := w.usual(p)
	if err := p.warm(ctx, targets); err != nil {
		return err
	}
	top := func() *costed {
		c := p.cost(ctx, r, "peak", &load{address: p.address, conns: 64, length: w.lasting(15 * time.Second), next: mix(targets)})
		r.wrong(c.problems.list()...)
		return c
	}
	before := top()
	seen.reset()
	// A client waits ten seconds for versions: a later answer is useless.
	o := p.cost(ctx, r, "flood", &load{address: p.address, conns: w.many(2048, 256), rate: 3 * before.rps(), length: w.lasting(time.Minute), next: mix(targets),
		timeout: 10 * time.Second, excused: func(r reply, _, _ time.Time) bool { return r.err == nil && r.header.Get("Retry-After") != "" }})
	normal := w.normal(ctx, p, targets, before.rps())
	after := top()
	peak := (before.rps() + after.rps()) / 2
	r.add("peak", peak, "/s")
	r.add("asked", float64(o.good.Load()+o.told.Load()+o.failed.Load())/o.length.Seconds(), "/s")
	r.least("goodput", 100*o.rps()/max(peak, 1), " % of the peak", 70)
	r.add("goodput of as much CPU", 100*(before.cpu+after.cpu)/2/max(o.cpu, 1e-9), " % of the peak")
	r.add("answered, p99", ms(o.waited.quantile(.99)), " ms")
	r.add("shed", float64(o.told.Load())/o.length.Seconds(), "/s")
	if o.told.Load() > 0 {
		r.most("shed, p99", ms(o.shed.quantile(.99)), " ms", 100)
	}
	r.add("errors", float64(o.failed.Load()), "")
	r.wrong(o.problems.list()...)
	r.most("normal after", normal.Seconds(), " s", 5)
	r.most("RSS peak", 0, " MB", limit/1e6)
	seen.end()
	r.wrong(p.complaints()...)
	if err := p.stop(); err != nil {
		r.wrong("the end of modproxy: " + err.Error())
	}
	return ctx.Err()
}

// costed is the result of a load, with the CPU time of the proxy for a good answer, in seconds.
type costed struct {
	*outcome
	cpu float64
}

// cost runs a load, and records the shares of the processors that the proxy and the generator use: if one of them uses all it can get, it
// limits the measurement.
func (p *proxy) cost(ctx context.Context, r *row, name string, l *load) *costed {
	id, own := p.server.Load().ID(), os.Getpid()
	theirs, ours := rig.Ticks(id, 2), rig.Ticks(own, 2)
	began := time.Now()
	o := l.run(ctx)
	took := time.Since(began)
	theirs, ours = rig.Ticks(id, 2)-theirs, rig.Ticks(own, 2)-ours
	r.note("%s: %.0f/s, with %.2f processors of modproxy and %.2f of the generator", name, o.rps(), float64(theirs)/float64(took), float64(ours)/float64(took))
	return &costed{o, theirs.Seconds() / max(float64(o.good.Load()), 1)}
}

// normal waits until a fifth of the peak is answered normally, and returns the time until then.
func (w *world) normal(ctx context.Context, p *proxy, targets []*target, peak float64) time.Duration {
	began := time.Now()
	for ctx.Err() == nil && time.Since(began) < time.Minute {
		at := time.Since(began)
		l := &load{address: p.address, conns: 32, rate: max(peak/5, 20), length: 500 * time.Millisecond, next: mix(targets), timeout: 10 * time.Second}
		if o := l.run(ctx); o.failed.Load() == 0 && o.good.Load() > 0 && o.took.quantile(.99) < 50*time.Millisecond {
			return at
		}
	}
	return time.Since(began)
}

// memoryGroup creates a control group with a limit of memory.
func memoryGroup(limit int) (dir string, err error) {
	const groups = "/sys/fs/cgroup"
	name := fmt.Sprintf("modproxy-load-%x", rand.Uint64())
	dir, file := filepath.Join(groups, "memory", name), "memory.limit_in_bytes"
	if _, err := os.Stat(filepath.Join(groups, "cgroup.subtree_control")); err == nil { // version 2
		dir, file = filepath.Join(groups, name), "memory.max"
		if err := os.WriteFile(filepath.Join(groups, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
			return "", err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(limit)), 0); err != nil {
		os.Remove(dir)
		return "", err
	}
	return dir, nil
}

// removeGroup ends the proxy in the group, which leaves it a moment later, and removes the group.
func removeGroup(dir string, p *proxy) {
	p.kill()
	for range 100 {
		if os.Remove(dir) == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
