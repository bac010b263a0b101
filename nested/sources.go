package nested

import (
	"context"
	"fmt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/internal/memory"
)

// Upstream is a registry that knows the commits of versions, such as the Client of package upstream.
type Upstream interface {
	modproxy.Registry
	PackageAt(ctx context.Context, rec modproxy.Record) (*modproxy.Package, error)
	Commit(ctx context.Context, v modproxy.Ref) (string, error)
}

// Sources fetches nested sources for [Registry], below the ledger and the cache. It passes requests for versions, and for providers, to
// the next registry. It never passes on a variant of a module: if no Registry has registered its location, the error is
// [modproxy.ErrNotFound]. It is safe for concurrent use.
type Sources struct {
	next  Upstream
	table *fetch.Table
	known memory.Cache[modproxy.Ref, fetch.Source]
}

// NewSources returns a registry that fetches nested sources with table, and passes other requests to next.
func NewSources(next Upstream, table *fetch.Table) *Sources {
	return &Sources{next: next, table: table, known: memory.Cache[modproxy.Ref, fetch.Source]{Max: maxSources}}
}

// expect remembers the source of a variant that will be requested.
func (s *Sources) expect(v modproxy.Ref, source fetch.Source) {
	if s != nil {
		s.known.Add(v, source, memory.Forever, 0)
	}
}

// of returns the source of v, and whether v is a variant.
func (s *Sources) of(v modproxy.Ref) (source fetch.Source, made bool, err error) {
	if !isMade(v) {
		return source, false, nil
	}
	source, known := s.known.Get(v)
	if !known {
		err = fmt.Errorf("%w: it is a variant, which no registry has", modproxy.ErrNotFound)
	}
	return source, true, err
}

// isMade reports whether v is a variant of a module. The packages of providers come from their registries under every name.
func isMade(v modproxy.Ref) bool {
	return v.IsModuleVariant()
}

// Versions returns the answer of the next registry.
func (s *Sources) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	return s.next.Versions(ctx, m)
}

// Location implements [modproxy.Registry]. For a nested source it checks the location, without a request.
func (s *Sources) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	source, made, err := s.of(v)
	if !made {
		return s.next.Location(ctx, v)
	}
	if err == nil {
		err = s.table.Check(ctx, source)
	}
	return modproxy.Location{Getter: source.Getter, URL: source.URL}, modproxy.Wrap("location", v, err)
}

// Package implements [modproxy.Registry]. For a nested source it fetches the package.
func (s *Sources) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	if !isMade(v) {
		return s.next.Package(ctx, v)
	}
	return s.PackageAt(ctx, modproxy.Record{Ref: v})
}

// PackageAt implements [Upstream]. It fetches a nested source from its location, at the recorded commit if the record has one.
func (s *Sources) PackageAt(ctx context.Context, rec modproxy.Record) (*modproxy.Package, error) {
	source, made, err := s.of(rec.Ref)
	if !made {
		return s.next.PackageAt(ctx, rec)
	}
	var p *modproxy.Package
	if err == nil {
		source.Commit = rec.Source.Commit
		p, err = s.table.Package(ctx, source)
	}
	return p, modproxy.Wrap("package", rec.Ref, err)
}

// Commit implements [Upstream]. It returns no commit for a variant, because sources are resolved once and never rechecked.
func (s *Sources) Commit(ctx context.Context, v modproxy.Ref) (string, error) {
	if isMade(v) {
		return "", nil
	}
	return s.next.Commit(ctx, v)
}
