package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/internal/slots"
	"github.com/modproxy/modproxy/tfconfig"
)

// A run is one Request in progress.
type run struct {
	*Engine
	Request
	registry modproxy.Registry // returns the packages, and records its answers in progress and out
	checks   bool              // the run fetches nothing
	progress *progress
	notes    *notes
	out      *output
	slots    slots.Semaphore // for tasks
	tasks    sync.WaitGroup
}

// newRun returns a run that gets packages from registry.
func newRun(e *Engine, in Request, registry modproxy.Registry) *run {
	progress := newProgress()
	out := newOutput(in, registry, progress)
	return &run{
		Engine: e, Request: in, registry: recordingRegistry{registry, progress, out},
		progress: progress, notes: newNotes(progress), out: out, slots: slots.NewSemaphore(maxTasks),
	}
}

// do gets all packages of the request.
func (r *run) do(ctx context.Context) error {
	starts := r.chosenStarts(ctx)
	for _, l := range r.Locked {
		r.task(ctx, Note{Chain: []string{l.At}}, func() error { return r.locked(ctx, l) })
	}
	walker := &closure.Walker{
		Registry: r.registry, Routes: r.Routes, Reader: r.Reader, AtOnce: maxTasks,
		Providers: r.Providers, Platforms: r.Platforms,
		MayRead: func(module modproxy.Address) error { return r.mayRead(ctx, module) },
	}
	if !r.Content { // a web server has packages as they are
		walker.Nested = r.Nested
	}
	err := walker.Walk(ctx, starts, func(f closure.Found) { r.found(ctx, f) })
	r.tasks.Wait()
	r.noteEvicted(ctx)
	return cmp.Or(err, ctx.Err())
}

// task calls f in the background, when one of the slots is free. The error of f is a problem of a call.
func (r *run) task(ctx context.Context, call Note, f func() error) {
	r.progress.beginTask()
	r.tasks.Go(func() {
		give, err := r.slots.Take(ctx)
		if err != nil {
			return
		}
		err = f()
		give()
		r.progress.endTask()
		if err != nil && ctx.Err() == nil {
			call.Text = err.Error()
			r.notes.add(false, call)
		}
	})
}

// chosenStarts returns the starts of the walk. If the choice is not that of clients, each start becomes one for each chosen version.
func (r *run) chosenStarts(ctx context.Context) (starts []closure.Start) {
	var mu sync.Mutex // guards starts
	for _, s := range r.Starts {
		if !s.IsCall() && s.Root != "" { // the requirements of a configuration, whose versions the walk chooses
			starts = append(starts, s)
			continue
		}
		module, err := r.moduleOf(s)
		switch {
		case err != nil && s.Name == "": // a named address; the walk reports the errors of calls
			r.notes.add(false, noteOf(s, err))
			continue
		case err == nil:
			r.progress.await(module)
		}
		if err != nil || r.Choice == (Choice{}) {
			starts = append(starts, s)
			continue
		}
		r.task(ctx, noteOf(s, nil), func() error {
			chosen, err := r.choose(ctx, module, constraintOf(s))
			mu.Lock()
			defer mu.Unlock()
			for _, version := range chosen {
				starts = append(starts, withVersion(s, version))
			}
			return err
		})
	}
	r.tasks.Wait()
	return starts
}

// constraintOf returns the constraint of a call or of a named provider.
func constraintOf(s closure.Start) string {
	if s.IsCall() {
		return s.Version
	}
	return s.Providers[0].Version
}

// withVersion returns s with a version instead of its constraint.
func withVersion(s closure.Start, v modproxy.Version) closure.Start {
	if s.IsCall() {
		s.Version = v.String()
		return s
	}
	s.Providers = []tfconfig.Requirement{s.Providers[0]}
	s.Providers[0].Version = v.String()
	return s
}

// moduleOf returns the module or provider of a start, at the upstream that the proxy requests.
func (r *run) moduleOf(s closure.Start) (modproxy.Address, error) {
	if !s.IsCall() && len(s.Providers) == 1 {
		provider, err := tfconfig.ParseProviderSource(s.Providers[0].Source, tfconfig.DefaultHosts[s.Client])
		if err != nil {
			return provider, err
		}
		return r.upstream(provider)
	}
	module, _, ok := tfconfig.ParseRegistrySource(s.Source, tfconfig.DefaultHosts[s.Client])
	if s.Dynamic != "" || !ok {
		return module, fmt.Errorf("%w: %.200q is not a module of a registry", modproxy.ErrInvalid, s.Source)
	}
	return r.upstream(module)
}

func (r *run) upstream(m modproxy.Address) (modproxy.Address, error) {
	at, err := r.Routes.Upstream(m)
	if err != nil {
		err = fmt.Errorf("%s: %w", m, err)
	}
	return at, err
}

// choose requests the versions of a module, and returns those that the choice of the request has.
func (r *run) choose(ctx context.Context, module modproxy.Address, constraint string) ([]modproxy.Version, error) {
	var c modproxy.Constraint
	if constraint != "" {
		var err error
		if c, err = modproxy.ParseConstraint(constraint); err != nil {
			return nil, err
		}
	}
	list, err := r.registry.Versions(ctx, module)
	if err != nil {
		return nil, err
	}
	var firstSeen modproxy.FirstSeen
	if !r.Since.IsZero() {
		if firstSeen, err = r.Gate.FirstSeen.Of(ctx, module); err != nil {
			return nil, err
		}
	}
	return r.Choice.of(module, list, c, firstSeen)
}

// locked gets a locked version. The error is [modproxy.ErrChanged] if its content is not that of the lock file.
func (r *run) locked(ctx context.Context, l Locked) error {
	v, err := l.Parse("")
	if err == nil {
		v.Address, err = r.Routes.Upstream(v.Address)
	}
	if err != nil {
		return err
	}
	base := v.Base() // a rewritten package is derived from it
	p, err := r.registry.Package(ctx, base)
	if err != nil {
		return err
	}
	if err := p.Close(); err != nil {
		return err
	}
	rec := modproxy.Record{Sum: p.Sum, Subdir: cmp.Or(p.Subdir, ".")}
	if served, err := modproxy.LookupAs(ctx, r.Ledger, v, l.Sum); err == nil && served.Sum == l.Sum {
		rec.Sum = l.Sum // the locked package is derived from base
	}
	if err := r.emitPackage(ctx, base); err != nil || rec.Is(l.Sum, l.Subdir) {
		return err
	}
	return fmt.Errorf("%w: %s is locked as %s, and is %s", modproxy.ErrChanged, v.Shown(), lockedText(l.Sum, l.Subdir), lockedText(p.Sum, p.Subdir))
}

// lockedText describes content as lock files do.
func lockedText(sum modproxy.Sum, subdir string) string {
	return strings.TrimSuffix(string(sum)+" "+subdir, " ")
}

// emitPackage adds a package that registry has returned to the answer.
func (r *run) emitPackage(ctx context.Context, v modproxy.Ref) error {
	r.progress.endVersion(v)
	if r.Content {
		if err := r.mayRead(ctx, v.Address); err != nil {
			return fmt.Errorf("%s: %w", v.Shown(), err)
		}
	}
	return r.out.emitPackage(ctx, v)
}

// noteEvicted notes the packages that the run has emitted and that the cache has evicted since.
func (r *run) noteEvicted(ctx context.Context) {
	for v, p := range r.out.emittedPackages() {
		if _, err := r.Store.Stat(ctx, p.Digest); errors.Is(err, fs.ErrNotExist) {
			r.notes.add(false, Note{
				Text: v.String() + ": it was evicted while others were fetched: cache.max_size is too small for all of them",
			})
		}
	}
}
