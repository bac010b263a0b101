package fetch

import (
	"context"
	"errors"
	"fmt"
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

	cooldowns cooldowns
	silent    silent
}

const (
	maxHops     = 5  // locations that lead to another location
	maxRequests = 10 // HTTP requests for one package: all hops, with redirects and retries
)

func (t *Table) getter(s Source) (Getter, error) {
	g, ok := t.Getters[s.Getter]
	switch {
	case ok:
		return g, nil
	case s.Getter == "file":
		return nil, fmt.Errorf("%w: the location names a local file, which modproxy never reads", modproxy.ErrDenied)
	}
	return nil, fmt.Errorf("%w: the location uses %w", modproxy.ErrInvalid, Unsupported(s.Getter))
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
	g, err := t.getter(s)
	if err != nil {
		return err
	}
	if err := g.Check(ctx, s); err != nil {
		return fmt.Errorf("location: %w", err)
	}
	return nil
}

// Commit returns the commit that s currently names; see [Getter.Commit]. During the pause that a server asked for,
// Commit and [Table.Package] send it no requests. The error is then a [modproxy.RetryLater].
func (t *Table) Commit(ctx context.Context, s Source) (string, error) {
	g, err := t.getter(s)
	if err != nil {
		return "", err
	}
	if err := t.cooldowns.wait(ctx, s); err != nil {
		return "", err
	}
	commit, err := g.Commit(ctx, s)
	t.cooldowns.note(err)
	return commit, err
}

// Tags lists tags; see [Tagger]. During the pause that a server asked for, it returns a [modproxy.RetryLater] without waiting.
func (t *Table) Tags(ctx context.Context, s Source, prefixes ...string) ([]Tag, error) {
	return t.tags(s, func(g Tagger) ([]Tag, error) { return g.Tags(ctx, s, prefixes...) })
}

// NamedTags returns single tags; see [Tagger]. It is otherwise like Tags.
func (t *Table) NamedTags(ctx context.Context, s Source, names ...string) ([]Tag, error) {
	return t.tags(s, func(g Tagger) ([]Tag, error) { return g.NamedTags(ctx, s, names...) })
}

func (t *Table) tags(s Source, ask func(Tagger) ([]Tag, error)) ([]Tag, error) {
	g, err := t.getter(s)
	if err != nil {
		return nil, err
	}
	tagger, ok := g.(Tagger)
	if !ok {
		return nil, fmt.Errorf("%w: locations of the getter %.40q have no tags", modproxy.ErrDenied, s.Getter)
	}
	if err := t.cooldowns.check(s); err != nil {
		return nil, err
	}
	tags, err := ask(tagger)
	t.cooldowns.note(err)
	return tags, err
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
		err = fmt.Errorf("%s: %w", got.From.URL, err)
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
		g, err := t.getter(s)
		if err != nil {
			return Result{}, "", err
		}
		if err := t.cooldowns.wait(ctx, s); err != nil {
			return Result{}, "", err
		}
		leave, err := t.silent.enter(ctx, s)
		if err != nil {
			return Result{}, "", err
		}
		got, err = g.Fetch(ctx, s, tree)
		leave()
		t.cooldowns.note(err)
		got.Immutable = got.Immutable && hops == 0 // a hop could lead elsewhere
		if err != nil || got.Next == nil {
			return got, root, err
		}
		s.Location, s.Direct, s.Own = *got.Next, false, nil
		if err := t.Check(ctx, s); err != nil {
			return Result{}, "", fmt.Errorf("%s: %w", got.From.URL, err)
		}
		root = path.Join(s.Subdir, root)
	}
	return Result{}, "", fmt.Errorf("%w: more than %d locations that lead to another", modproxy.ErrInvalid, maxHops)
}
