package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/pack"
)

// Table fetches packages with its getters. It is safe for concurrent use.
type Table struct {
	Getters map[string]Getter // by the Getter of a location
	Scratch string            // the directory for packages in progress
	Limits  pack.Limits       // of a package
	Mirrors Mirrors           // of forges

	cooldowns cooldowns
	silent    silent
}

const (
	maxHops     = 5  // locations that lead to another location
	maxRequests = 10 // HTTP requests for one package: all hops, with redirects and retries
)

// getter returns s at its mirror, if it has one, and the getter for it.
func (t *Table) getter(s Source) (Source, Getter, error) {
	l, mirrored, err := t.Mirrors.Replace(s.Location)
	if err != nil {
		return s, nil, err
	}
	if s.Mirrors = t.Mirrors; mirrored {
		s.Named, s.Location, s.Own = s.Location, l, nil
	}
	g, ok := t.Getters[s.Getter]
	switch {
	case ok:
		return s, g, nil
	case s.Getter == "file":
		return s, nil, fmt.Errorf("%w: the location names a local file, which modproxy never reads", modproxy.ErrDenied)
	}
	return s, nil, fmt.Errorf("%w: the location uses %w", modproxy.ErrInvalid, Unsupported(s.Getter))
}

// Unsupported returns the reason why a location of a kind without a getter cannot be used, with an alternative.
func Unsupported(getter string) error {
	instead := "use a git repository, an OCI repository, or an archive at an https URL"
	switch getter {
	case "s3", "gcs":
		instead = "push the module to an OCI registry, or serve its archive at an https URL"
	case "hg":
		instead = "mirror the repository to git"
	}
	return fmt.Errorf("the getter %.40q, which modproxy does not fetch; %s", getter, instead)
}

// Check returns an error if a fetch of s would certainly be refused. It makes no connection. For a kind of location without a getter,
// the error is a [modproxy.ErrInvalid] with the reason of [Unsupported].
func (t *Table) Check(ctx context.Context, s Source) error {
	s, g, err := t.getter(s)
	if err != nil {
		return err
	}
	if err := s.explain(g.Check(ctx, s)); err != nil {
		return fmt.Errorf("location: %w", err)
	}
	return nil
}

// Commit returns the commit that s currently names; see [Getter.Commit]. During the pause that a server asked for,
// Commit and [Table.Package] send it no requests. The error is then a [modproxy.RetryLater].
func (t *Table) Commit(ctx context.Context, s Source) (string, error) {
	s, g, err := t.getter(s)
	if err != nil {
		return "", err
	}
	if err := t.cooldowns.wait(ctx, s); err != nil {
		return "", s.explain(err)
	}
	commit, err := g.Commit(ctx, s)
	t.cooldowns.note(err)
	return commit, s.explain(err)
}

// Tags lists tags; see [Tagger]. During the pause that a server asked for, it returns a [modproxy.RetryLater] without waiting.
func (t *Table) Tags(ctx context.Context, s Source, prefixes ...string) ([]Tag, error) {
	return t.tags(s, func(s Source, g Tagger) ([]Tag, error) { return g.Tags(ctx, s, prefixes...) })
}

// NamedTags returns single tags; see [Tagger]. It is otherwise like Tags.
func (t *Table) NamedTags(ctx context.Context, s Source, names ...string) ([]Tag, error) {
	return t.tags(s, func(s Source, g Tagger) ([]Tag, error) { return g.NamedTags(ctx, s, names...) })
}

func (t *Table) tags(s Source, ask func(Source, Tagger) ([]Tag, error)) ([]Tag, error) {
	s, g, err := t.getter(s)
	if err != nil {
		return nil, err
	}
	tagger, ok := g.(Tagger)
	if !ok {
		return nil, fmt.Errorf("%w: locations of the getter %.40q have no tags", modproxy.ErrDenied, s.Getter)
	}
	if err := t.cooldowns.check(s); err != nil {
		return nil, s.explain(err)
	}
	tags, err := ask(s, tagger)
	t.cooldowns.note(err)
	return tags, s.explain(err)
}

// Package downloads the files of s and packs them. The package is read from an unlinked file, which Close removes.
//
// Errors are those of a [Getter]; an error about content that cannot change is a [modproxy.PermanentContent].
func (t *Table) Package(ctx context.Context, s Source) (*modproxy.Package, error) {
	tree, err := pack.New(t.Scratch, t.Limits)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	pattern, subdir := s.SplitGlob()
	got, root, err := t.fetch(ctx, s, pattern, tree)
	if err == nil {
		var p *modproxy.Package
		if s.NeedsSubdir {
			err = needsDir(tree, root, subdir)
		}
		if err == nil {
			p, err = tree.Package(ctx, t.Scratch, root)
		}
		if err == nil {
			p.Source, p.Subdir = got.From, subdir
			return p, nil
		}
		err = fmt.Errorf("%s: %w", got.From.Fetched(), err)
	}
	if got.Immutable && errors.Is(err, modproxy.ErrInvalid) && !errors.Is(err, modproxy.ErrUnavailable) {
		err = &modproxy.PermanentContent{Err: err}
	}
	return nil, err
}

// needsDir returns an error if the package at root has no directory dir.
func needsDir(tree *pack.Builder, root, dir string) error {
	has, err := tree.HasDir(root, dir)
	if err == nil && !has {
		err = fmt.Errorf("%w: it has no directory %.200q", modproxy.ErrNotFound, dir)
	}
	return err
}

// fetch adds the files at s, after all hops, to tree. root is a pattern for the directory in tree that is the package.
func (t *Table) fetch(ctx context.Context, s Source, pattern string, tree *pack.Builder) (got Result, root string, err error) {
	s.Budget = egress.NewBudget(maxRequests)
	root = pattern
	for hops := range maxHops + 1 {
		at, g, err := t.getter(s)
		if err != nil {
			return Result{}, "", err
		}
		if err := t.cooldowns.wait(ctx, at); err != nil {
			return Result{}, "", at.explain(err)
		}
		leave, err := t.silent.enter(ctx, at)
		if err != nil {
			return Result{}, "", at.explain(err)
		}
		got, err = g.Fetch(ctx, at, tree)
		leave()
		t.cooldowns.note(err)
		got.From = at.origin(got.From)
		got.Immutable = got.Immutable && hops == 0 // a hop could lead elsewhere
		if err != nil || got.Next == nil {
			return got, root, at.explain(err)
		}
		s.Location, s.Direct, s.Own = *got.Next, false, nil
		if err := t.Check(ctx, s); err != nil {
			return Result{}, "", fmt.Errorf("%s: %w", got.From.Fetched(), err)
		}
		root = path.Join(s.Subdir, root)
	}
	return Result{}, "", fmt.Errorf("%w: more than %d locations that lead to another", modproxy.ErrInvalid, maxHops)
}

// origin returns from, the URL and commit that a getter fetched for s, as the origin of the content.
func (s Source) origin(from modproxy.Source) modproxy.Source {
	if named := s.named(); named != nil {
		from.URL, from.Mirror = egress.Redact(named), from.URL
	}
	return from
}

// explain adds to err that s is at a mirror, if it is.
func (s Source) explain(err error) error {
	if named := s.named(); named != nil {
		return AtMirror(err, named)
	}
	return err
}

// named returns the URL whose mirror s is at, or nil.
func (s Source) named() *url.URL {
	u, err := url.Parse(s.Named.URL) // Mirrors.Replace has parsed it
	if s.Named.URL == "" || err != nil {
		return nil
	}
	return u
}
