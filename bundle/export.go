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

// An Exporter makes bundles of the content of a registry.
type Exporter struct {
	// Registry returns lists and packages. Versions that it denies or does not have are not exported.
	Registry  modproxy.Registry
	Ledger    *ledger.Log
	FirstSeen FirstSeen
	// Since is the previous bundle, made of the same ledger. Nil: the bundle begins a chain.
	Since *Head
}

// FirstSeen returns first-seen times of versions.
type FirstSeen interface {
	Of(ctx context.Context, m modproxy.Address) (modproxy.FirstSeen, error)
}

// Export is a bundle that is ready to be written.
type Export struct {
	*Exporter
	out      *Writer
	manifest Manifest
	index    Index
	facts    []*PackageEntry
	texts    [][]byte                                // encoded facts
	groups   map[content]int                         // index into facts, by package
	before   map[Version]*Before                     // content of earlier bundles
	lists    map[modproxy.Address]*modproxy.Versions // of the module whose versions are being collected
	has      map[modproxy.Ref]bool                   // versions in this bundle or an earlier one
}

// content identifies a package of a bundle, which several versions may share. A module's package and a provider's archive with the same
// bytes are two contents.
type content struct {
	modproxy.Digest
	modproxy.Sum
}

// Begin collects a bundle of the selected versions, in the order of [Selection.Versions], and of the decisions about their modules. Releases of
// providers come first, because an import holds back the packages for platforms until it has read the releases. Begin calls each for
// every version in that order, with nil or the reason why the version is not in the bundle.
//
// Errors: [modproxy.ErrNotFound] if there is nothing to export; [modproxy.ErrChanged] if Since is not of this ledger; those of the
// registry and the ledger.
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
		case errors.Is(err, modproxy.ErrDenied), errors.Is(err, modproxy.ErrNotFound), errors.Is(err, modproxy.ErrChanged), errors.As(err, new(*modproxy.NotCached)):
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

// concerns reports whether a decision is about one of the modules, which are folded.
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

// releasesFirst orders releases of providers before all other versions.
func releasesFirst(a, b modproxy.Ref) int {
	rank := func(v modproxy.Ref) int {
		switch v.Content() {
		case modproxy.ReleaseContent, modproxy.KeysContent:
			return 0
		case modproxy.ModuleContent, modproxy.ArchiveContent:
		}
		return 1
	}
	return cmp.Compare(rank(a), rank(b))
}

// since adds the content of the earlier bundles of the chain.
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
	for _, b := range carried { // the last bundle with a version counts
		b.Gone = true
		e.before[b.Version] = &b
	}
	return nil
}

// add adds a version to the bundle, or returns the reason why it cannot.
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
	delete(e.before, Version{v}) // an earlier bundle had other content
	number, text, err := e.Ledger.Number(v)
	if err != nil {
		return err
	}
	e.manifest.Tree = max(e.manifest.Tree, number+1)
	f := VersionEntry{Number: number, Record: string(text), Subdir: p.Subdir}
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
	firstSeen, err := e.FirstSeen.Of(ctx, v.Address)
	if err != nil {
		return err
	}
	if seen, ok := firstSeen.Of(v.FullVersion()); ok {
		f.Seen, f.Published = cmp.Or(seen.Seen, firstSeen.Module), seen.Published
	}
	is := content{p.Digest, p.Sum}
	i, ok := e.groups[is]
	if !ok {
		// A damaged package must not be listed in the index.
		if _, err := io.Copy(io.Discard, p); err != nil {
			return fmt.Errorf("%w: its package cannot be read: %w", modproxy.ErrNotFound, err)
		}
		i = len(e.facts)
		e.groups[is] = i
		e.facts = append(e.facts, &PackageEntry{Notes: p.Notes})
		e.index.Packages = append(e.index.Packages, Package{Sum: p.Sum, Package: Content{p.Size, p.Digest}})
	}
	e.facts[i].Versions = append(e.facts[i].Versions, f)
	e.index.Packages[i].Versions = append(e.index.Packages[i].Versions, Version{v})
	return nil
}

// prove completes the manifest, the index and the facts. The tree is the smallest one with all needed entries, so that a ledger that has
// grown since gives the same bundle.
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

// Size returns the number of bytes that Write writes.
func (e *Export) Size() int64 { return e.out.size }

// Write writes the bundle. It opens the packages again. A package that was denied or lost since Begin is an error.
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
