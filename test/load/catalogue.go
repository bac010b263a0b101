package main

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// catalogue stores very many packages in modproxy, and compares it with one that has few.
func (w *world) catalogue(ctx context.Context, r *row) error {
	modules := w.many(w.modules, 20)
	few, err := w.asUsual(ctx)
	if err != nil {
		return err
	}
	const more = "fetch: {at_once: 32}\ncache: {max_versions: 1GiB}\n"
	return w.running(ctx, 1000, more, r, func(p *proxy, seen *watch) error {
		targets := p.targets("many", modules, w.size, 10)
		w.say("L6: %d packages are installed first", len(targets))
		// the versions of one module are asked for by different clients, and the first asks upstream
		took, err := p.each(ctx, 32, targets, func(c *conn, t *target) error { return t.first(ctx, c) })
		if err != nil {
			return err
		}
		r.note("%d packages of %d bytes, kept at %.0f/s", len(targets), w.size, float64(len(targets))/took.Seconds())
		if err := p.stop(); err != nil {
			return err
		}
		bytes, files := size(filepath.Join(p.data, "blobs"))
		ready, err := p.start(ctx)
		if err != nil {
			return err
		}
		seen.reset()
		l := w.usualLoad(p, targets, time.Minute)
		o := l.run(ctx)
		r.most("ready", ready.Seconds(), " s", 5)
		r.add("p50", ms(o.took.quantile(.5)), " ms")
		r.most("p99", ms(o.took.quantile(.99)), " ms", max(2*ms(few), 1))
		r.add("p99 with few", ms(few), " ms")
		r.most("RSS peak", 0, " MB", 250)
		r.add("errors", float64(o.failed.Load()), "")
		r.wrong(o.problems.list()...)
		seen.end()
		pid := p.server.Load().ID()
		for _, v := range []struct {
			what  string
			flags []string
		}{{"verify", nil}, {"verify --read-data", []string{"--read-data"}}} {
			began := time.Now()
			if _, err := p.verb(ctx, append([]string{"verify"}, v.flags...)...); err != nil {
				r.wrong(err.Error())
			}
			took := time.Since(began).Seconds()
			if v.flags == nil {
				r.most(v.what, took, " s", 60)
				continue
			}
			r.add(v.what, float64(files)/took, " packages/s")
			if w.size >= 64<<10 { // otherwise the number of files counts
				r.least(v.what, mb(bytes)/took, " MB/s", 400)
			}
		}
		r.most("RSS peak, with both", mb(rig.InStatus(pid, "VmHWM")), " MB", 250)
		return ctx.Err()
	})
}

// asUsual is the p99 of a proxy with few packages, under the same load.
func (w *world) asUsual(ctx context.Context) (p99 time.Duration, err error) {
	other := &row{}
	err = w.running(ctx, 1000, "", other, func(p *proxy, _ *watch) error {
		targets := p.targets("few", 10, w.size, 10)
		if err := p.warm(ctx, targets); err != nil {
			return err
		}
		l := w.usualLoad(p, targets, 30*time.Second)
		o := l.run(ctx)
		if p99 = o.took.quantile(.99); len(o.problems.list()) > 0 {
			return fmt.Errorf("with few packages: %v", o.problems.list())
		}
		return nil
	})
	return p99, err
}

// size returns the total size of all files below a directory, in bytes, and their number.
func size(dir string) (bytes int64, files int) {
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, gone := e.Info(); gone == nil {
				bytes += info.Size()
				files++
			}
		}
		return nil
	})
	return bytes, files
}
