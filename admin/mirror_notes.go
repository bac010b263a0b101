package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/tfconfig"
)

// note is what is noted of a call.
type note struct {
	bypass bool
	MirrorNote
}

// found tells what a walk finds. It is called one at a time.
func (m *mirrorRun) found(ctx context.Context, f closure.Found) {
	switch f.Kind {
	case closure.Chosen:
		m.mu.Lock()
		if _, met := m.known[f.Module.Folded()]; !met {
			m.known[f.Module.Folded()] = false
			m.so.Left++
		}
		m.mu.Unlock()
		return
	case closure.Ready:
		if f.Err = m.tell(ctx, f.Module); f.Err == nil {
			return
		}
	case closure.Bypass, closure.Trouble:
	}
	n := MirrorNote{Clients: []tfconfig.Client{f.Client}, Source: f.Source, Text: f.Err.Error()}
	for _, step := range f.Chain {
		n.Chain = append(n.Chain, step.String())
	}
	m.done(f.Module)
	if m.check && lacks(f) {
		n.Lacks = wantedOf(f)
	}
	m.note(f.Kind == closure.Bypass && !m.strays(f), n)
}

// strays reports whether what f is about is a module of a registry that the proxy does not ask, so that nobody gets it here. A
// source without a hostname is of another registry for each client: that of one of them is enough.
func (m *mirrorRun) strays(f closure.Found) bool {
	named := func(c tfconfig.Client) (modproxy.Address, bool) {
		if f.Provider {
			p, err := tfconfig.ParseProviderSource(f.Source, tfconfig.DefaultHosts[c])
			return p, err == nil
		}
		module, _, ok := tfconfig.ParseRegistrySource(f.Source, tfconfig.DefaultHosts[c])
		return module, ok
	}
	if _, ok := named(f.Client); f.Dynamic || !ok {
		return false
	}
	return !slices.ContainsFunc(m.Starts, func(s closure.Start) bool {
		other, _ := named(s.Client)
		_, err := m.server.Routing.Upstream(other)
		return err == nil
	})
}

// lacks reports whether what f is about can be fetched, and is not kept.
func lacks(f closure.Found) bool {
	_, lacks := errors.AsType[*lacking](f.Err)
	unlisted := f.Kind == closure.Trouble && f.Module.Name != "" && f.Module.Version == "" && !errors.Is(f.Err, modproxy.ErrDenied)
	return lacks || unlisted
}

// note notes something of a call, once for all clients.
func (m *mirrorRun) note(bypass bool, n MirrorNote) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := fmt.Sprint(bypass, n.Chain, n.Source, n.Text)
	if was := m.notes[key]; was != nil {
		was.Clients = append(was.Clients, n.Clients...)
		return
	}
	m.notes[key] = &note{bypass, n}
	if bypass {
		m.so.Bypasses++
	} else {
		m.so.Problems++
	}
}

// noted returns what was noted, in the order of the calls.
func (m *mirrorRun) noted() (lines []MirrorLine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range slices.SortedFunc(maps.Values(m.notes), func(a, b *note) int {
		return cmp.Or(slices.Compare(a.Chain, b.Chain), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Text, b.Text))
	}) {
		slices.Sort(n.Clients)
		n.Clients = slices.Compact(n.Clients)
		line := MirrorLine{Problem: &n.MirrorNote}
		if n.bypass {
			line = MirrorLine{Bypass: &n.MirrorNote}
		}
		lines = append(lines, line)
	}
	return lines
}

func noteOf(s closure.Start, err error) MirrorNote {
	n := MirrorNote{Clients: []tfconfig.Client{s.Client}, Source: s.Source}
	if !s.IsCall() && len(s.Providers) > 0 {
		n.Source, s.Pos = s.Providers[0].Source, s.Providers[0].Pos
	}
	if err != nil {
		n.Text = err.Error()
	}
	for _, at := range append(slices.Clip(s.From), s.Pos) {
		if at != (tfconfig.Pos{}) {
			n.Chain = append(n.Chain, at.Place())
		}
	}
	return n
}

// evicted notes what was brought and is not kept any more: what is mirrored may be more than there is room for.
func (m *mirrorRun) evicted(ctx context.Context) {
	m.mu.Lock()
	told := maps.Clone(m.told)
	m.mu.Unlock()
	for v := range told {
		if _, err := m.server.Store.Stat(ctx, m.brought[v].Digest); errors.Is(err, fs.ErrNotExist) {
			text := v.String() + ": it was evicted while others were fetched: cache.max_size is too small for all of them"
			m.note(false, MirrorNote{Text: text})
		}
	}
}
