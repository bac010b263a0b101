package admin

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

// Mirror asks for packages to be fetched, and kept.
type Mirror struct {
	Wanted []Wanted `json:"wanted"`
	Groups []string `json:"groups,omitempty"` // of the client that they are for
}

// Wanted are versions of a module: the one that a client chooses by a constraint.
type Wanted struct {
	Module   string `json:"module"`
	Versions string `json:"versions,omitempty"` // a constraint; empty for any
}

// MirrorLine is a part of the answer; one field is set.
type MirrorLine struct {
	Package  *MirroredPackage `json:"package,omitempty"`
	Problem  *MirrorProblem   `json:"problem,omitempty"`
	Progress *Mirrored        `json:"progress,omitempty"`
}

// MirroredPackage is a package that is kept now.
type MirroredPackage struct {
	Name
	Size    int64        `json:"size_bytes"`
	Sum     modproxy.Sum `json:"sum"`
	Fetched bool         `json:"fetched"` // it was not kept before
}

// MirrorProblem is why something wanted is not kept.
type MirrorProblem struct {
	Wanted
	Error string `json:"error"`
}

// Mirrored is how far a mirror has come.
type Mirrored struct {
	Asked    int     `json:"asked"`   // modules whose versions were asked for
	Fetched  int     `json:"fetched"` // packages
	Kept     int     `json:"kept"`    // packages that were kept before
	Problems int     `json:"problems"`
	Left     int     `json:"left"`  // that is known to be left to do
	Bytes    int64   `json:"bytes"` // of what was fetched
	Seconds  float64 `json:"seconds"`
}

const (
	maxWanted   = 100_000
	mirrorTasks = 32          // under way at the same time; the cache and the registries have bounds of their own
	mirrorTick  = time.Second // between two lines of progress
)

// mirror fetches what is wanted, as far as it can. What is kept is not fetched again, so a mirror that was ended goes on
// where it was.
func (s *Server) mirror(ctx context.Context, in Mirror, each func(MirrorLine)) (Mirrored, error) {
	switch {
	case s.Upstreams == nil:
		return Mirrored{}, fmt.Errorf("%w: offline, and nothing is fetched", modproxy.ErrUnavailable)
	case len(in.Wanted) > maxWanted:
		return Mirrored{}, fmt.Errorf("%w: %d modules are wanted, and %d may be at a time", modproxy.ErrInvalid, len(in.Wanted), maxWanted)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	run := &mirrorRun{began: time.Now(), lines: make(chan MirrorLine), turns: make(chan struct{}, mirrorTasks), known: map[modproxy.ModuleVersion]bool{}}
	ctx, run.registry = s.asOperator(ctx, in.Groups)
	for _, w := range in.Wanted {
		run.task(ctx, func() error { return run.choose(ctx, w) }, w)
	}
	go func() {
		run.tasks.Wait()
		close(run.lines)
	}()
	tick := time.NewTicker(mirrorTick)
	defer tick.Stop()
	for {
		select {
		case line, more := <-run.lines:
			if !more {
				return run.progress(), ctx.Err()
			}
			each(line)
		case <-tick.C:
			so := run.progress()
			each(MirrorLine{Progress: &so})
		}
	}
}

// mirrorRun is a mirror under way.
type mirrorRun struct {
	registry modproxy.Registry
	began    time.Time
	lines    chan MirrorLine
	turns    chan struct{}
	tasks    sync.WaitGroup

	mu    sync.Mutex // guards what follows
	so    Mirrored
	known map[modproxy.ModuleVersion]bool // by folded version; without one, the modules
}

func (m *mirrorRun) progress() Mirrored {
	m.mu.Lock()
	defer m.mu.Unlock()
	so := m.so
	so.Seconds = time.Since(m.began).Seconds()
	return so
}

// count changes how far m has come.
func (m *mirrorRun) count(change func(*Mirrored)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.so)
}

// task has f done when it is its turn. What is wrong is a problem with w.
func (m *mirrorRun) task(ctx context.Context, f func() error, w Wanted) {
	m.count(func(so *Mirrored) { so.Left++ })
	m.tasks.Go(func() {
		select {
		case m.turns <- struct{}{}:
		case <-ctx.Done():
			return
		}
		err := f()
		<-m.turns
		m.count(func(so *Mirrored) { so.Left-- })
		if err != nil && ctx.Err() == nil {
			m.count(func(so *Mirrored) { so.Problems++ })
			m.say(ctx, MirrorLine{Problem: &MirrorProblem{w, err.Error()}})
		}
	})
}

func (m *mirrorRun) say(ctx context.Context, line MirrorLine) {
	select {
	case m.lines <- line:
	case <-ctx.Done():
	}
}

// choose asks for the versions of a module, and has the one that is wanted fetched.
func (m *mirrorRun) choose(ctx context.Context, w Wanted) error {
	module, err := hostname.ParseModule(w.Module, "")
	if err != nil {
		return err
	}
	var c modproxy.Constraint
	if w.Versions != "" {
		if c, err = modproxy.ParseConstraint(w.Versions); err != nil {
			return err
		}
	}
	list, err := m.registry.Versions(ctx, module)
	if err != nil {
		return err
	}
	if m.isNew(module.At("")) {
		m.count(func(so *Mirrored) { so.Asked++ })
	}
	some, err := list.Only(func(l modproxy.Listed) bool { return c.Selects(l.Version) })
	if err != nil {
		return err
	}
	if some == nil {
		newest, _ := list.Latest()
		return fmt.Errorf("%w: %s has no version %s; the newest is %s", modproxy.ErrNotFound, module, c, newest)
	}
	newest, _ := some.Latest()
	if v := module.At(newest.String()); m.isNew(v) {
		m.task(ctx, func() error { return m.fetch(ctx, v) }, w)
	}
	return nil
}

// isNew reports whether v was not met before, in any case.
func (m *mirrorRun) isNew(v modproxy.ModuleVersion) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := v.Folded().At(v.Version)
	isNew := !m.known[key]
	m.known[key] = true
	return isNew
}

// fetch has a package kept.
func (m *mirrorRun) fetch(ctx context.Context, v modproxy.ModuleVersion) error {
	p, err := m.registry.Package(ctx, v)
	if err != nil {
		return err
	}
	out := MirroredPackage{Name: NameOf(v), Size: p.Size, Sum: p.Sum, Fetched: !p.Time.Before(m.began)}
	m.count(func(so *Mirrored) {
		if out.Fetched {
			so.Fetched++
			so.Bytes += p.Size
		} else {
			so.Kept++
		}
	})
	m.say(ctx, MirrorLine{Package: &out})
	return cmp.Or(p.Close(), ctx.Err())
}
