package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// A scope is what a fault excuses.
type scope int

const (
	nothing    scope = iota // no client is affected
	cold                    // new packages cannot be fetched
	unanswered              // no request is answered
)

// A window is the time of a fault.
type window struct {
	from, to time.Time // to is zero during the fault
	scope    scope
}

// A soak is a long load with occasional faults.
type soak struct {
	*world
	p       *proxy
	r       *row
	disk    string // mount point of the small file system, if there is one
	targets []*target
	in      *intake
	hold    time.Duration // duration of a fault

	mu      sync.Mutex
	windows []window
}

// during excuses the errors of a fault until the returned function is called.
func (s *soak) during(what scope) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.windows)
	s.windows = append(s.windows, window{from: time.Now(), scope: what})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.windows[n].to = time.Now()
	}
}

// within reports whether a fault of at least this scope overlapped the time, or ended shortly before it.
func (s *soak) within(what scope, from, to time.Time, moment time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.windows, func(w window) bool {
		return w.scope >= what && !w.from.After(to) && (w.to.IsZero() || !w.to.Add(moment).Before(from))
	})
}

// soakFor runs the soak for the time in the flags.
func (w *world) soakFor(ctx context.Context, r *row) (err error) {
	s := &soak{world: w, r: r}
	length, every := w.soak, w.every
	if w.quick {
		length, every = time.Minute, 300*time.Millisecond // it ends after each fault occurred once
	}
	s.hold = every / 2
	p, err := w.newProxy(ctx, 1000, "cache: {memory: 64KiB, missing: 1s}\npolicy: {files: [rules.yaml]}\n")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.unmount(), p.close()) }()
	s.p = p
	if err := os.WriteFile(p.path("rules.yaml"), []byte(noRules), 0o600); err != nil {
		return err
	}
	if err := s.mount(); err != nil {
		r.note("the disk is not filled: %v", err)
	}
	if _, err := p.start(ctx); err != nil {
		return err
	}
	seen := p.watch(r)
	defer seen.end()
	s.targets = w.usual(p)
	if err := p.warm(ctx, s.targets); err != nil {
		return err
	}
	seen.reset()
	if err := s.load(ctx, length, every); err != nil {
		return err
	}
	seen.end()
	s.trend(seen.all(), length)
	r.wrong(p.complaints()...)
	if err := p.stop(); err != nil {
		r.wrong("the end of modproxy: " + err.Error())
	}
	return s.afterwards(ctx)
}

// load runs the load and the faults.
func (s *soak) load(ctx context.Context, length, every time.Duration) error {
	ending, end := context.WithCancel(ctx)
	defer end()
	l := &load{address: s.p.address, conns: 64, rate: float64(s.many(500, 200)), length: length, next: mix(s.targets),
		excused: func(r reply, asked, ended time.Time) bool {
			return (r.err != nil || r.status == http.StatusServiceUnavailable) && s.within(unanswered, asked, ended, 0)
		},
		apart: func(asked, ended time.Time) bool { return s.within(nothing, asked, ended, time.Second) }}
	s.in = &intake{p: s.p, group: "soak", size: 8 << 10}
	var group sync.WaitGroup
	var fresh problems
	group.Go(func() { s.intake(ending, &fresh) })
	group.Go(func() { s.tidy(ending) })
	var done []string
	group.Go(func() {
		defer end()
		for i := 0; pause(ending, every-s.hold) && !(s.quick && i == len(faults)); i++ {
			f := faults[i%len(faults)]
			s.say("L8: %s", f.name)
			if err := f.run(s, ending); err != nil && ending.Err() == nil {
				s.r.wrong(f.name + ": " + err.Error())
			}
			if i < len(faults) {
				done = append(done, f.name)
			}
			if !s.quick { // faults are shorter than allowed
				pause(ending, s.left(every))
			}
		}
	})
	o := l.run(ending)
	end()
	group.Wait()
	s.r.latency(o, 5*time.Millisecond, 50*time.Millisecond, 200*time.Millisecond)
	s.r.add("modules installed meanwhile", float64(len(s.in.all())), "")
	s.r.add("unanswered while it did not run", float64(o.excused.Load()), "")
	s.r.wrong(fresh.list()...)
	s.r.note("%d faults: %v; times are those of calm hours", len(s.windows), done)
	if len(s.in.all()) == 0 && ctx.Err() == nil {
		s.r.wrong("no module was installed meanwhile")
	}
	return ctx.Err()
}

// left is the rest of the interval after a fault.
func (s *soak) left(every time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hold - time.Since(s.windows[len(s.windows)-1].from)
}

// intake installs new modules repeatedly.
func (s *soak) intake(ctx context.Context, failed *problems) {
	interval := time.Second
	if s.quick {
		interval = 30 * time.Millisecond
	}
	c := &conn{address: s.p.address, timeout: 30 * time.Second}
	defer c.close()
	for pause(ctx, interval) {
		began := time.Now()
		err := s.in.one(ctx, c)
		// answers of upstream are cached for a while
		if err == nil || ctx.Err() != nil || s.within(cold, began, time.Now(), 15*time.Second) {
			continue
		}
		failed.add("a new module: %v", err)
	}
}

// tidy keeps the log from filling the disk in hours: it cuts off the checked part.
func (s *soak) tidy(ctx context.Context) {
	for pause(ctx, 10*time.Second) {
		if file, err := os.Stat(s.p.path("modproxy.log")); err == nil && file.Size() > 64<<20 {
			s.r.wrong(s.p.complaints()...)
			if err := os.Truncate(s.p.path("modproxy.log"), 0); err != nil {
				s.r.wrong(err.Error())
			}
		}
	}
}

// afterwards checks the data at the end, without a registry.
func (s *soak) afterwards(ctx context.Context) error {
	given := slices.Concat(s.targets, s.in.all())
	if _, err := s.p.start(ctx, "--offline"); err != nil {
		return err
	}
	if _, err := s.p.each(ctx, 8, given, func(c *conn, t *target) error { return t.install(ctx, c) }); err != nil {
		s.r.wrong("afterwards: " + err.Error())
	}
	if err := s.p.stop(); err != nil {
		s.r.wrong("the end of modproxy: " + err.Error())
	}
	wrong, err := s.p.whole(ctx, given)
	s.r.wrong(wrong...)
	return err
}

// trend reports growth. Memory is compared within each life of the process, after its first minutes.
func (s *soak) trend(samples []sample, length time.Duration) {
	begin := map[int]time.Time{}
	var means = map[int]*[3]float64{} // by life: the number of samples, the sums of hours and of megabytes
	skip := min(10*time.Minute, length/20)
	var counted []sample
	for _, one := range samples {
		if _, known := begin[one.life]; !known {
			begin[one.life], means[one.life] = one.at, &[3]float64{}
		}
		if one.at.Sub(begin[one.life]) < skip {
			continue
		}
		counted = append(counted, one)
		m := means[one.life]
		m[0]++
		m[1] += one.at.Sub(begin[one.life]).Hours()
		m[2] += mb(one.rss)
	}
	var above, below float64
	for _, one := range counted {
		m := means[one.life]
		x := one.at.Sub(begin[one.life]).Hours() - m[1]/m[0]
		above += x * (mb(one.rss) - m[2]/m[0])
		below += x * x
	}
	if length < 2*time.Hour || below == 0 {
		s.r.note("too short to say how memory grows")
	} else {
		s.r.most("RSS grows by", max(above/below, 0), " MB/h", 1)
	}
	if tenth := len(counted) / 10; tenth > 0 {
		first, last := counted[:tenth], counted[len(counted)-tenth:]
		grown := func(of func(sample) int) float64 { return 100 * (median(last, of)/math.Max(median(first, of), 1) - 1) }
		s.r.most("goroutines grow by", max(grown(func(s sample) int { return s.goroutines }), 0), " %", 10)
		s.r.most("fds grow by", max(grown(func(s sample) int { return s.fds }), 0), " %", 10)
		s.r.most("children at the end", median(last, func(s sample) int { return s.children }), "", 0.5)
	}
}

// median returns the median of a value over at least one sample.
func median(samples []sample, of func(sample) int) float64 {
	var all []int
	for _, s := range samples {
		all = append(all, of(s))
	}
	slices.Sort(all)
	return float64(all[len(all)/2])
}

// must returns an error unless an answer has a status.
func must(what string, r reply, status int) error {
	if r.err != nil || r.status != status {
		return fmt.Errorf("%s: %v, want %d", what, &r, status)
	}
	return nil
}
