package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/policy"
)

// An Exporter makes bundles of what a registry has.
type Exporter struct {
	// Registry is asked for lists and packages. What it refuses, or does not have, is not exported.
	Registry modproxy.Registry
	Ledger   *ledger.Log
	Sights   Sights
	// Since is the bundle before, which was made of the same ledger. Nil: a chain begins.
	Since *Head
}

// Sights knows when versions were first listed.
type Sights interface {
	Sight(ctx context.Context, m modproxy.Address) (modproxy.Sight, error)
}

// Export is a bundle in the making.
type Export struct {
	*Exporter
	out      *Writer
	manifest Manifest
	index    Index
	facts    []*Facts
	texts    [][]byte                                // of facts
	groups   map[content]int                         // in facts, by the package
	before   map[Version]*Before                     // what the chain has carried
	lists    map[modproxy.Address]*modproxy.Versions // of the module that is being collected
	has      map[modproxy.Ref]bool                   // what is in the bundle, or was in one before
}

// content is what versions share that are one package of a bundle. The same bytes are one content as a module, and another as the
// package of a provider for a platform.
type content struct {
	modproxy.Digest
	modproxy.Sum
}

// Begin collects a bundle of the versions selected, which are in order, and of those decisions that are about their modules.
// Releases of providers come first: an import holds back the packages for platforms until it has read the releases. each is told of
// all versions in that order: why one is not in the bundle, or nil.
//
// Errors: [modproxy.ErrNotFound] when there is nothing to export; [modproxy.ErrChanged] when Since is not of this ledger;
// those of the registry and the ledger.
func (x *Exporter) Begin(
	ctx context.Context, selected []modproxy.Ref, decisions []modproxy.Decision, each func(v modproxy.Ref, why error),
) (*Export, error) {
	e := &Export{Exporter: x, groups: map[content]int{}, before: map[Version]*Before{}, has: map[modproxy.Ref]bool{}}
	if err := e.since(); err != nil {
		return nil, err
	}
	selected = slices.Clone(selected)
	slices.SortStableFunc(selected, releasesFirst)
	modules := map[modproxy.Address]bool{}
	for v := range e.before {
		modules[v.Address.Folded()] = true
	}
	for _, v := range selected {
		modules[v.Address.Folded()] = true
		err := e.add(ctx, v)
		e.has[v] = err == nil
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, modproxy.ErrDenied), errors.Is(err, modproxy.ErrNotFound), errors.Is(err, modproxy.ErrChanged), errors.As(err, new(*modproxy.NotKept)):
		case err != nil:
			return nil, err
		}
		each(v, err)
	}
	if len(e.index.Packages)+len(e.before) == 0 {
		return nil, fmt.Errorf("%w: there is nothing to export", modproxy.ErrNotFound)
	}
	for _, d := range decisions {
		if concerns(d, modules) {
			text, err := ledger.FormatDecision(d)
			if err != nil {
				return nil, err
			}
			e.index.Decisions = append(e.index.Decisions, string(text))
		}
	}
	err := e.prove()
	if err == nil {
		e.out, err = NewWriter(e.Ledger, e.manifest, &e.index)
	}
	return e, err
}

// concerns reports whether a decision is about some of the modules, which are folded.
func concerns(d modproxy.Decision, modules map[modproxy.Address]bool) bool {
	if !d.IsGlob() {
		return modules[d.Address.Folded()]
	}
	for m := range modules {
		if policy.IsAbout(d, m) {
			return true
		}
	}
	return false
}

// releasesFirst orders releases of providers before everything else.
func releasesFirst(a, b modproxy.Ref) int {
	rank := func(v modproxy.Ref) int {
		if v.IsProvider() && !v.IsArchive() {
			return 0
		}
		return 1
	}
	return cmp.Compare(rank(a), rank(b))
}

// since takes over what the chain has carried.
func (e *Export) since() error {
	h := e.Since
	if h == nil {
		return nil
	}
	if root, err := e.Ledger.Root(h.Tree); err != nil || root.Hash != h.Hash {
		return fmt.Errorf("%w: bundle %d (%s) is not of this ledger, or the ledger is an older copy", modproxy.ErrChanged, h.Sequence(), h.ID)
	}
	e.manifest.Before, e.manifest.Tree = append(slices.Clip(h.Before), h.ID), h.Tree
	carried := slices.Clone(h.Index.Before)
	for _, p := range h.Index.Packages {
		for _, v := range p.Versions {
			carried = append(carried, Before{Version: v, Sum: p.Sum, Bundle: int(h.Sequence())})
		}
	}
	for _, b := range carried { // of a version that came twice the last one counts
		b.Gone = true
		e.before[b.Version] = &b
	}
	return nil
}

// add puts a version into the bundle, or returns why not.
func (e *Export) add(ctx context.Context, v modproxy.Ref) error {
	if v.IsArchive() && !e.has[v.Base()] {
		return fmt.Errorf("%w: its release is not exported", modproxy.ErrNotFound)
	}
	p, err := e.Registry.Package(ctx, v)
	if err != nil {
		return err
	}
	defer p.Close()
	if b := e.before[Version{v}]; b != nil && b.Sum == p.Sum {
		b.Gone = false
		return nil
	}
	delete(e.before, Version{v}) // it was something else
	number, text, err := e.Ledger.Number(v)
	if err != nil {
		return err
	}
	e.manifest.Tree = max(e.manifest.Tree, number+1)
	f := Fact{Number: number, Record: string(text), Subdir: p.Subdir}
	list, ok := e.lists[v.Address]
	if !ok {
		if list, err = e.Registry.Versions(ctx, v.Address); err != nil {
			return err
		}
		e.lists = map[modproxy.Address]*modproxy.Versions{v.Address: list}
	}
	if entry, ok := list.Find(v.FullVersion()); ok {
		f.Listed = entry.Entry
	}
	sight, err := e.Sights.Sight(ctx, v.Address)
	if err != nil {
		return err
	}
	if seen, ok := sight.Of(v.FullVersion()); ok {
		f.Seen, f.Published = cmp.Or(seen.Seen, sight.Met), seen.Published
	}
	is := content{p.Digest, p.Sum}
	i, ok := e.groups[is]
	if !ok {
		// One that is damaged is not announced.
		if _, err := io.Copy(io.Discard, p); err != nil {
			return fmt.Errorf("%w: its package cannot be read: %w", modproxy.ErrNotFound, err)
		}
		i = len(e.facts)
		e.groups[is] = i
		e.facts = append(e.facts, &Facts{Notes: p.Notes})
		e.index.Packages = append(e.index.Packages, Package{Sum: p.Sum, Package: Content{p.Size, p.Digest}})
	}
	e.facts[i].Versions = append(e.facts[i].Versions, f)
	e.index.Packages[i].Versions = append(e.index.Packages[i].Versions, Version{v})
	return nil
}

// prove completes the manifest, the index and the facts. The tree is the smallest one that has all that is needed: one that
// has grown meanwhile makes no other bundle.
func (e *Export) prove() error {
	n := e.manifest.Tree
	root, err := e.Ledger.Root(n)
	if err != nil {
		return err
	}
	e.manifest.Hash = root.Hash
	if e.Since != nil {
		if e.manifest.Proof, err = e.Ledger.ProveTree(e.Since.Tree, n); err != nil {
			return err
		}
	}
	for i, facts := range e.facts {
		for j := range facts.Versions {
			f := &facts.Versions[j]
			if f.Proof, err = e.Ledger.Prove(f.Number, n); err != nil {
				return err
			}
		}
		text, err := encode(facts)
		if err == nil && len(text) > maxFacts {
			err = wrong("too many versions have the package %s", e.index.Packages[i].Sum)
		}
		if err != nil {
			return err
		}
		e.texts = append(e.texts, text)
		e.index.Packages[i].Facts = contentOf(text)
	}
	for _, b := range e.before {
		e.index.Before = append(e.index.Before, *b)
	}
	slices.SortFunc(e.index.Before, func(a, b Before) int { return strings.Compare(a.Version.String(), b.Version.String()) })
	return nil
}

// Size returns how many bytes Write writes.
func (e *Export) Size() int64 { return e.out.size }

// Write writes the bundle. Packages are opened again: what is refused or lost by now is an error.
func (e *Export) Write(ctx context.Context, w io.Writer) (*Head, error) {
	if err := e.out.Begin(w); err != nil {
		return nil, err
	}
	for i, p := range e.index.Packages {
		opened, err := e.Registry.Package(ctx, p.Versions[0].Ref)
		if err == nil && opened.Digest != p.Package.Digest {
			err = fmt.Errorf("%w: %s: it was replaced meanwhile: try again", modproxy.ErrUnavailable, p.Versions[0])
			opened.Close()
		}
		if err == nil {
			err = errors.Join(e.out.Add(e.texts[i], opened), opened.Close())
		}
		if err != nil {
			return nil, err
		}
	}
	return &Head{ID: e.out.ID, Manifest: e.manifest, Index: &e.index}, e.out.Close()
}
