package admin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

// Mirror asks for packages to be fetched, and kept.
type Mirror struct {
	Wanted []Wanted `json:"wanted,omitempty"`
	Locked []Locked `json:"locked,omitempty"`
	Choice
	Groups []string `json:"groups,omitempty"` // of the client that they are for
	// Content asks for the packages themselves, too, but for those of which the client has Have.
	Content bool              `json:"content,omitempty"`
	Have    []modproxy.Digest `json:"have,omitempty"`
}

// Wanted are versions of a module.
type Wanted struct {
	At       string `json:"at,omitempty"` // where it is written, for messages
	Module   string `json:"module"`
	Versions string `json:"versions,omitempty"` // a constraint; empty for any
}

// Locked is a version with what it must be.
type Locked struct {
	At string `json:"at,omitempty"`
	Name
	Sum    modproxy.Sum `json:"sum"`
	Subdir string       `json:"subdir,omitempty"`
}

// MirrorLine is a part of the answer; one field is set.
type MirrorLine struct {
	Package  *MirroredPackage `json:"package,omitempty"`
	Problem  *MirrorProblem   `json:"problem,omitempty"`
	Progress *Mirrored        `json:"progress,omitempty"`
	Data     []byte           `json:"data,omitempty"` // of the last Package, in order
}

// MirroredPackage is a package that is kept now.
type MirroredPackage struct {
	Name
	Size    int64           `json:"size_bytes"`
	Sum     modproxy.Sum    `json:"sum"`
	Digest  modproxy.Digest `json:"digest"`
	Subdir  string          `json:"subdir,omitempty"`
	Fetched bool            `json:"fetched"`        // it was not kept before
	Data    bool            `json:"data,omitempty"` // its bytes follow
}

// MirrorProblem is why something wanted is not kept.
type MirrorProblem struct {
	At    string `json:"at,omitempty"`
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
	case len(in.Wanted)+len(in.Locked) > maxWanted:
		return Mirrored{}, fmt.Errorf("%w: %d modules are wanted, and %d may be at a time",
			modproxy.ErrInvalid, len(in.Wanted)+len(in.Locked), maxWanted)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	run := &mirrorRun{
		server: s, choice: in.Choice, began: time.Now(), lines: make(chan MirrorLine), turns: make(chan struct{}, mirrorTasks),
		known: map[modproxy.ModuleVersion]bool{},
	}
	if in.Content {
		run.sent = map[modproxy.Digest]bool{}
		for _, digest := range in.Have {
			run.sent[digest] = true
		}
	}
	ctx, run.registry = s.asOperator(ctx, s.Gate, in.Groups)
	for _, w := range in.Wanted {
		run.task(ctx, w.At, func() error { return run.choose(ctx, w) })
	}
	for _, l := range in.Locked {
		run.task(ctx, l.At, func() error { return run.locked(ctx, l) })
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
	server   *Server
	registry modproxy.Registry
	choice   Choice
	began    time.Time
	lines    chan MirrorLine
	turns    chan struct{}
	tasks    sync.WaitGroup

	sending sync.Mutex               // held while a package is told
	sent    map[modproxy.Digest]bool // whose bytes are not sent; nil: none are

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

// task has f done when it is its turn. What is wrong is a problem with what is written at a place.
func (m *mirrorRun) task(ctx context.Context, at string, f func() error) {
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
			m.say(ctx, MirrorLine{Problem: &MirrorProblem{at, err.Error()}})
		}
	})
}

func (m *mirrorRun) say(ctx context.Context, line MirrorLine) {
	select {
	case m.lines <- line:
	case <-ctx.Done():
	}
}

// choose asks for the versions of a module, and has those that are wanted fetched.
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
	sight, err := m.sight(ctx, module)
	if err != nil {
		return err
	}
	chosen, err := m.choice.of(module, list, c, sight)
	for _, version := range chosen {
		if v := module.At(version.String()); m.isNew(v) {
			m.task(ctx, w.At, func() error { return m.fetch(ctx, v, Locked{}) })
		}
	}
	return err
}

// sight returns since when the versions of a module are listed, if that makes a difference.
func (m *mirrorRun) sight(ctx context.Context, module modproxy.Module) (modproxy.Sight, error) {
	if m.choice.Since.IsZero() {
		return modproxy.Sight{}, nil
	}
	return m.server.Gate.Sights.Sight(ctx, module)
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

// locked has a version kept, which must be what a lock file says.
func (m *mirrorRun) locked(ctx context.Context, l Locked) error {
	v, err := l.Parse("")
	if err != nil {
		return err
	}
	m.isNew(v)
	return m.fetch(ctx, v, l)
}

// fetch has a package kept, and compares it with what it must be, if that is not zero.
func (m *mirrorRun) fetch(ctx context.Context, v modproxy.ModuleVersion, l Locked) error {
	p, err := m.registry.Package(ctx, v)
	if err != nil {
		return err
	}
	out := MirroredPackage{
		Name: NameOf(v), Size: p.Size, Sum: p.Sum, Digest: p.Digest, Subdir: p.Subdir, Fetched: !p.Time.Before(m.began),
	}
	m.count(func(so *Mirrored) {
		if out.Fetched {
			so.Fetched++
			so.Bytes += p.Size
		} else {
			so.Kept++
		}
	})
	rec := modproxy.Record{Sum: l.Sum, Subdir: cmp.Or(l.Subdir, ".")}
	if err = m.send(ctx, out, p); err == nil && l.Sum != "" && !rec.Is(p.Sum, p.Subdir) {
		err = fmt.Errorf("%w: %s is locked as %s, and is %s", modproxy.ErrChanged, v, locked(l.Sum, l.Subdir), locked(p.Sum, p.Subdir))
	}
	return cmp.Or(p.Close(), err)
}

const mirrorChunk = 256 << 10

// send tells of a package, and sends its bytes if they are wanted.
func (m *mirrorRun) send(ctx context.Context, out MirroredPackage, content io.Reader) error {
	m.sending.Lock()
	defer m.sending.Unlock()
	out.Data = m.sent != nil && !m.sent[out.Digest]
	m.say(ctx, MirrorLine{Package: &out})
	for left := out.Size; out.Data && left > 0; {
		chunk := make([]byte, min(left, mirrorChunk))
		if _, err := io.ReadFull(content, chunk); err != nil {
			return fmt.Errorf("%w: %s %s: %w", modproxy.ErrUnavailable, out.Module, out.Version, err)
		}
		left -= int64(len(chunk))
		m.say(ctx, MirrorLine{Data: chunk})
	}
	if out.Data {
		m.sent[out.Digest] = true
	}
	return ctx.Err()
}

// locked is what a version is, as in a lock file.
func locked(sum modproxy.Sum, subdir string) string {
	return strings.TrimSuffix(string(sum)+" "+subdir, " ")
}
