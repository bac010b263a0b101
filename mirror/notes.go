package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/tfconfig"
)

// notes collects the notes of a run. A note that several clients share is one note. It is safe for concurrent use.
type notes struct {
	progress *progress

	mu  sync.Mutex
	all map[string]*note
}

type note struct {
	bypass bool // a problem if false
	Note
}

func newNotes(progress *progress) *notes { return &notes{progress: progress, all: map[string]*note{}} }

// add adds a bypass, or a problem.
func (n *notes) add(bypass bool, one Note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := fmt.Sprint(bypass, one.Chain, one.Source, one.Text)
	if same := n.all[key]; same != nil {
		same.Clients = append(same.Clients, one.Clients...)
		return
	}
	n.all[key] = &note{bypass, one}
	n.progress.addNote(bypass)
}

// lines returns the notes in the order of the calls.
func (n *notes) lines() (lines []Line) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range slices.SortedFunc(maps.Values(n.all), func(a, b *note) int {
		return cmp.Or(slices.Compare(a.Chain, b.Chain), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Text, b.Text))
	}) {
		slices.Sort(one.Clients)
		one.Clients = slices.Compact(one.Clients)
		line := Line{Problem: &one.Note}
		if one.bypass {
			line = Line{Bypass: &one.Note}
		}
		lines = append(lines, line)
	}
	return lines
}

// noteOf returns a note about a start. err may be nil.
func noteOf(s closure.Start, err error) Note {
	n := Note{Clients: []tfconfig.Client{s.Client}, Source: s.Source}
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

// found adds a result of the walk to the answer. The walk calls it once at a time.
func (r *run) found(ctx context.Context, f closure.Found) {
	switch f.Kind {
	case closure.Chosen:
		r.progress.beginVersion(f.Module)
		return
	case closure.Ready:
		if f.Err = r.emitPackage(ctx, f.Module); f.Err == nil {
			return
		}
	case closure.Bypass, closure.Trouble:
	}
	n := Note{Clients: []tfconfig.Client{f.Client}, Source: f.Source, Text: f.Err.Error()}
	for _, step := range f.Chain {
		n.Chain = append(n.Chain, step.String())
	}
	r.progress.endVersion(f.Module)
	if r.checks && isMissing(f) {
		n.Lacks = entryOf(f)
	}
	r.notes.add(f.Kind == closure.Bypass && !r.isOfUnknownRegistry(f), n)
}

// isOfUnknownRegistry reports whether f is about a module of a registry that the proxy does not request, so that no client gets the
// module here. A source without a hostname has another registry for each client; it is enough if the proxy requests one of them.
func (r *run) isOfUnknownRegistry(f closure.Found) bool {
	addressFor := func(c tfconfig.Client) (modproxy.Address, bool) {
		if f.Provider {
			p, err := tfconfig.ParseProviderSource(f.Source, tfconfig.DefaultHosts[c])
			return p, err == nil
		}
		module, _, ok := tfconfig.ParseRegistrySource(f.Source, tfconfig.DefaultHosts[c])
		return module, ok
	}
	if _, ok := addressFor(f.Client); f.Dynamic || !ok {
		return false
	}
	return !slices.ContainsFunc(r.Starts, func(s closure.Start) bool {
		other, _ := addressFor(s.Client)
		_, err := r.Routes.Upstream(other)
		return err == nil
	})
}

// isMissing reports whether f is about a package that can be fetched and is not cached.
func isMissing(f closure.Found) bool {
	_, isMissing := errors.AsType[*missingError](f.Err)
	hasNoVersion := f.Kind == closure.Trouble && f.Module.Name != "" && f.Module.Version == "" && !errors.Is(f.Err, modproxy.ErrDenied)
	return isMissing || hasNoVersion
}
