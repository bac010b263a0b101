package admin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/tfconfig"
)

// mirrorRun is a mirror under way.
type mirrorRun struct {
	Mirror
	check    bool // nothing is fetched
	server   *Server
	registry modproxy.Registry
	began    time.Time
	lines    chan MirrorLine
	turns    chan struct{}
	tasks    sync.WaitGroup

	sending sync.Mutex               // held while a package is told
	sent    map[modproxy.Digest]bool // whose bytes are not sent; nil: none are

	mu      sync.Mutex // guards what follows
	so      Mirrored
	known   map[modproxy.Ref]bool            // by folded version: whether it is done; and modules
	brought map[modproxy.Ref]MirroredPackage // what registry gave
	waiting map[modproxy.Address]bool        // folded: to start from, and not asked for yet
	told    map[modproxy.Ref]bool            // those of them that were told
	notes   map[string]*note
}

func newMirrorRun(s *Server, registry modproxy.Registry, in Mirror, check bool) *mirrorRun {
	m := &mirrorRun{
		Mirror: in, check: check, server: s, registry: registry, began: time.Now(),
		lines: make(chan MirrorLine), turns: make(chan struct{}, mirrorTasks),
		known: map[modproxy.Ref]bool{}, brought: map[modproxy.Ref]MirroredPackage{},
		told: map[modproxy.Ref]bool{}, waiting: map[modproxy.Address]bool{}, notes: map[string]*note{},
	}
	if in.Content {
		m.sent = map[modproxy.Digest]bool{}
		for _, digest := range in.Have {
			m.sent[digest] = true
		}
	}
	return m
}

// work fetches what is wanted.
func (m *mirrorRun) work(ctx context.Context) error {
	starts := m.expand(ctx)
	for _, l := range m.Locked {
		m.task(ctx, MirrorNote{Chain: []string{l.At}}, func() error { return m.lock(ctx, l) })
	}
	walker := &closure.Walker{
		Registry: watched{m.registry, m}, Routes: m.server.Routing, Reader: m.server.Configurations, AtOnce: mirrorTasks,
		Providers: m.Providers, Platforms: m.Platforms,
		MayRead: func(module modproxy.Address) error { return m.server.mayRead(ctx, module) },
	}
	if m.sent == nil { // a web server has packages as they are
		walker.Nested = m.server.Nested
	}
	err := walker.Walk(ctx, starts, func(f closure.Found) { m.found(ctx, f) })
	m.tasks.Wait()
	m.evicted(ctx)
	return cmp.Or(err, ctx.Err())
}

// expand returns the starts of a walk: if the choice is not that of clients, one for each version.
func (m *mirrorRun) expand(ctx context.Context) (starts []closure.Start) {
	var mu sync.Mutex
	for _, s := range m.Starts {
		if !s.IsCall() && s.Root != "" { // what a configuration requires is not known before the walk
			starts = append(starts, s)
			continue
		}
		module, err := m.moduleOf(s)
		switch {
		case err != nil && s.Name == "": // it is not called, but named
			m.note(false, noteOf(s, err))
			continue
		case err == nil:
			m.wait(module)
		}
		if err != nil || m.Choice == (Choice{}) {
			starts = append(starts, s)
			continue
		}
		m.task(ctx, noteOf(s, nil), func() error {
			chosen, err := m.choose(ctx, module, constraintOf(s))
			mu.Lock()
			defer mu.Unlock()
			for _, version := range chosen {
				starts = append(starts, exactly(s, version))
			}
			return err
		})
	}
	m.tasks.Wait()
	return starts
}

// constraintOf returns the constraint of a call, or of a provider that is named.
func constraintOf(s closure.Start) string {
	if s.IsCall() {
		return s.Version
	}
	return s.Providers[0].Version
}

// exactly returns s with a version in the place of its constraint.
func exactly(s closure.Start, v modproxy.Version) closure.Start {
	if s.IsCall() {
		s.Version = v.String()
		return s
	}
	s.Providers = []tfconfig.Requirement{s.Providers[0]}
	s.Providers[0].Version = v.String()
	return s
}

// wait tells that a module will be asked for.
func (m *mirrorRun) wait(module modproxy.Address) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting[module.Folded()] = true
}

// moduleOf returns the module that a start is about. The walk says what is wrong with a call.
func (m *mirrorRun) moduleOf(s closure.Start) (modproxy.Address, error) {
	if !s.IsCall() && len(s.Providers) == 1 {
		provider, err := tfconfig.ParseProviderSource(s.Providers[0].Source, tfconfig.DefaultHosts[s.Client])
		if err != nil {
			return provider, err
		}
		return m.routed(provider)
	}
	module, _, ok := tfconfig.ParseRegistrySource(s.Source, tfconfig.DefaultHosts[s.Client])
	if s.Dynamic != "" || !ok {
		return module, fmt.Errorf("%w: %.200q is no module of a registry", modproxy.ErrInvalid, s.Source)
	}
	return m.routed(module)
}

// routed returns the address at the upstream that the proxy asks.
func (m *mirrorRun) routed(module modproxy.Address) (modproxy.Address, error) {
	at, err := m.server.Routing.Upstream(module)
	if err != nil {
		err = fmt.Errorf("%s: %w", module, err)
	}
	return at, err
}

// choose asks for the versions of a module, and returns those that are wanted.
func (m *mirrorRun) choose(ctx context.Context, module modproxy.Address, constraint string) ([]modproxy.Version, error) {
	var c modproxy.Constraint
	if constraint != "" {
		var err error
		if c, err = modproxy.ParseConstraint(constraint); err != nil {
			return nil, err
		}
	}
	list, err := watched{m.registry, m}.Versions(ctx, module)
	if err != nil {
		return nil, err
	}
	var sight modproxy.Sight
	if !m.Since.IsZero() {
		if sight, err = m.server.Gate.Sights.Sight(ctx, module); err != nil {
			return nil, err
		}
	}
	return m.Choice.of(module, list, c, sight)
}

// task has f done when it is its turn. What is wrong is a problem of a call.
func (m *mirrorRun) task(ctx context.Context, call MirrorNote, f func() error) {
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
			call.Text = err.Error()
			m.note(false, call)
		}
	})
}

// lock has a version kept, which must be what a lock file says.
func (m *mirrorRun) lock(ctx context.Context, l Locked) error {
	v, err := l.Parse("")
	if err == nil {
		v.Address, err = m.server.Routing.Upstream(v.Address)
	}
	if err != nil {
		return err
	}
	of := v.Base() // with which comes what was made of it
	p, err := watched{m.registry, m}.Package(ctx, of)
	if err != nil {
		return err
	}
	if err := p.Close(); err != nil {
		return err
	}
	rec := modproxy.Record{Sum: p.Sum, Subdir: cmp.Or(p.Subdir, ".")}
	if as, err := modproxy.LookupAs(ctx, m.server.Ledger, v, l.Sum); err == nil && as.Sum == l.Sum {
		rec.Sum = l.Sum // in that form it is served
	}
	if err := m.tell(ctx, of); err != nil || rec.Is(l.Sum, l.Subdir) {
		return err
	}
	was, is := locked(l.Sum, l.Subdir), locked(p.Sum, p.Subdir)
	return fmt.Errorf("%w: %s is locked as %s, and is %s", modproxy.ErrChanged, v.Shown(), was, is)
}

// locked is what a version is, as in a lock file.
func locked(sum modproxy.Sum, subdir string) string {
	return strings.TrimSuffix(string(sum)+" "+subdir, " ")
}

func (m *mirrorRun) progress() Mirrored {
	m.mu.Lock()
	defer m.mu.Unlock()
	so := m.so
	so.Left += len(m.waiting)
	so.Seconds = time.Since(m.began).Seconds()
	return so
}

// count changes how far m has come.
func (m *mirrorRun) count(change func(*Mirrored)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.so)
}

// done tells that a version that was chosen is not left to do any more.
func (m *mirrorRun) done(v modproxy.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, met := m.known[v.Folded()]; met && !was && v.Version != "" {
		m.known[v.Folded()] = true
		m.so.Left--
	}
}

func (m *mirrorRun) say(ctx context.Context, line MirrorLine) {
	select {
	case m.lines <- line:
	case <-ctx.Done():
	}
}

const mirrorChunk = 256 << 10

// tell tells of a package that was brought, once, and sends its bytes if they are wanted.
func (m *mirrorRun) tell(ctx context.Context, v modproxy.Ref) error {
	m.done(v)
	m.sending.Lock()
	defer m.sending.Unlock()
	if m.sent != nil {
		if err := m.server.mayRead(ctx, v.Address); err != nil {
			return fmt.Errorf("%s: %w", v.Shown(), err)
		}
	}
	m.mu.Lock()
	out, told := m.brought[v], m.told[v]
	m.told[v] = true
	switch {
	case told:
	case out.Fetched:
		m.so.Fetched++
		m.so.Bytes += out.Size
	default:
		m.so.Kept++
	}
	m.mu.Unlock()
	if told {
		return nil
	}
	isRelease := v.IsProvider() && out.Platform == ""
	hasDirectory := slices.ContainsFunc(out.Hashes.All(), func(sum modproxy.Sum) bool { return slices.Contains(m.HaveDirectories, sum) })
	wanted := m.sent != nil && !isRelease && !hasDirectory && !m.sent[out.Digest]
	line := out // which is the client's from then on
	line.Data = wanted
	m.say(ctx, MirrorLine{Package: &line})
	if !wanted {
		return ctx.Err()
	}
	m.sent[out.Digest] = true
	content, err := m.registry.Package(ctx, v)
	if err != nil {
		return err
	}
	defer content.Close()
	for left := out.Size; left > 0; {
		chunk := make([]byte, min(left, mirrorChunk))
		if _, err := io.ReadFull(content, chunk); err != nil {
			return fmt.Errorf("%w: %s: %w", modproxy.ErrUnavailable, v.Shown(), err)
		}
		left -= int64(len(chunk))
		m.say(ctx, MirrorLine{Data: chunk})
	}
	return ctx.Err()
}

// watched gives the answers of Next, and has a run know of them.
type watched struct {
	Next modproxy.Registry
	run  *mirrorRun
}

// Versions implements [modproxy.Registry].
func (w watched) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	v, err := w.Next.Versions(ctx, m)
	w.run.mu.Lock()
	defer w.run.mu.Unlock()
	delete(w.run.waiting, m.Folded())
	if key := m.Folded().At(""); err == nil && !w.run.known[key] {
		w.run.known[key] = true
		w.run.so.Asked++
	}
	return v, err
}

// Location implements [modproxy.Registry].
func (w watched) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	return w.Next.Location(ctx, v)
}

// Package implements [modproxy.Registry].
func (w watched) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := w.Next.Package(ctx, v)
	if err == nil && v.IsListed() && !v.IsProvider() && w.run.server.Nested != nil && w.run.sent == nil && !w.run.check {
		if err = w.run.server.Nested.Bring(ctx, v); err != nil {
			p.Close()
		}
	}
	if err != nil {
		return nil, err
	}
	w.run.mu.Lock()
	defer w.run.mu.Unlock()
	if _, met := w.run.brought[v]; !met {
		w.run.brought[v] = MirroredPackage{
			Name: NameOf(v), Size: p.Size, Sum: p.Sum, Digest: p.Digest, Hashes: p.Facts.Hashes, Subdir: p.Subdir,
			Fetched: !p.Time.Before(w.run.began),
		}
	}
	return p, nil
}
