package bundle

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/policy"
)

// An Importer takes what bundles have.
type Importer struct {
	Trust    note.Verifiers
	Ledger   *ledger.Log
	Releases Releases
	Cache    Cache
	Sights   interface {
		// Take records when versions were first listed, as others have seen it.
		Take(ctx context.Context, m modproxy.Address, seen map[string]modproxy.VersionSight) error
	}
	Gate interface {
		// Follow reads the decisions that were made since.
		Follow(ctx context.Context) error
		// Place returns the decisions in force that d meets.
		Place(ctx context.Context, d modproxy.Decision) (policy.Place, error)
	}
	Scratch      string      // the directory for a package while it is verified
	Limits       pack.Limits // of a package
	NewChain     bool        // a bundle that begins a chain may be older than what the same ledger has sent before
	AllDecisions bool        // approvals, and what ends a block or a deprecation, are taken over, too
}

// Cache keeps packages.
type Cache interface {
	// Room returns an error if there is no room for so many bytes more.
	Room(ctx context.Context, bytes int64) error
	// Holds reports whether the package of a version is kept, is whole and has that content.
	Holds(ctx context.Context, v modproxy.Ref, sum modproxy.Sum) bool
	// Keep keeps a package, whose version the ledger has as that. It does not close it.
	Keep(ctx context.Context, v modproxy.Ref, p *modproxy.Package) error
	// Learn keeps entries of a registry's document.
	Learn(ctx context.Context, m modproxy.Address, entries []modproxy.Listed) error
}

// State is what became of something in a bundle.
type State string

const (
	Added   State = "added"   // Reason, if any, is why clients do not get it all the same
	Kept    State = "kept"    // it was here already; Reason as above
	Refused State = "refused" // Reason
	Absent  State = "absent"  // an earlier bundle has carried it, and it is not here; Reason
	Decided State = "decided" // Reason is a decision that was taken over
)

// An Item is what became of a version, or of a decision.
type Item struct {
	Module   string `json:"module"`
	Version  string `json:"version,omitempty"`  // empty for a decision, which is in Reason
	Platform string `json:"platform,omitempty"` // of the package of a provider for one
	State    State  `json:"state"`
	Reason   string `json:"reason,omitempty"`
}

// ItemOf returns the item of a version.
func ItemOf(v modproxy.Ref, state State, reason string) Item {
	version, platform := v.VersionPlatform()
	return Item{v.Address.String(), version, platform, state, reason}
}

// imports is an import under way.
type imports struct {
	*Importer
	*Head
	groups map[modproxy.Ref]*group

	mu     sync.Mutex // guards what follows
	listed map[modproxy.Address][]modproxy.Listed
	seen   map[modproxy.Address]map[string]modproxy.VersionSight
}

// Import takes what a bundle has, and returns what became of it. A package is published when it was verified, whole or not at
// all; what was published when Import fails stays, and is not taken again the next time. At the end the ledger has that the
// bundle was imported, also if some of it was refused.
//
// Errors: those of [NewReader] and [Reader.Next]; [modproxy.ErrDenied] for a bundle that is older than what was imported, is
// not of the ledger that its chain is of, or whose bundle before was not imported; those of the storage.
func (x *Importer) Import(ctx context.Context, r io.Reader) (*Head, []Item, error) {
	b, err := NewReader(r, x.Trust)
	if err != nil {
		return nil, nil, err
	}
	i := &imports{
		Importer: x, Head: b.Head, groups: groups(b.Index), listed: map[modproxy.Address][]modproxy.Listed{},
		seen: map[modproxy.Address]map[string]modproxy.VersionSight{},
	}
	if err := i.admit(ctx); err != nil {
		return nil, nil, err
	}
	if err := i.room(ctx); err != nil {
		return nil, nil, err
	}
	items, err := i.decide(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("the decisions: %w", err)
	}
	packages, err := i.packages(ctx, b)
	if err != nil {
		kept := 0
		for _, item := range packages {
			if item.State != Refused {
				kept++
			}
		}
		return nil, nil, fmt.Errorf("%w; %d of %d versions are kept by now, and the next import goes on from there", err, kept, b.Count())
	}
	items = append(items, packages...)
	for m, entries := range i.listed {
		if err := cmp.Or(x.Cache.Learn(ctx, m, entries), x.Sights.Take(ctx, m, i.seen[m])); err != nil {
			return nil, nil, err
		}
	}
	for _, v := range b.Index.Before {
		if v.Gone || x.Cache.Holds(ctx, v.Version.Ref, v.Sum) {
			continue
		}
		newer, err := i.superseded(ctx, modproxy.Record{Ref: v.Version.Ref, Sum: v.Sum})
		if err != nil {
			return nil, nil, err
		}
		if newer == "" {
			why := fmt.Sprintf("it came in bundle %d (%s) and is not kept any more: import that again", v.Bundle, b.Before[v.Bundle-1])
			items = append(items, ItemOf(v.Version.Ref, Absent, why))
		}
	}
	return b.Head, items, x.Ledger.AddBundle(ctx, ledger.Bundle{
		ID: b.ID, Chain: b.Chain(), Sequence: b.Sequence(), Tree: b.Root(), Signer: b.Signer, Time: time.Now(),
	})
}

// admit returns why the bundle may not be imported now, or nil.
func (x *imports) admit(ctx context.Context) error {
	h := x.Head
	var last ledger.Bundle   // of the chain
	var newest ledger.Bundle // of the other ledger
	for b, err := range x.Ledger.Bundles(ctx) {
		switch {
		case err != nil:
			return err
		case b.ID == h.ID:
			return nil // what is not here any more comes again
		}
		if b.Chain == h.Chain() && b.Sequence > last.Sequence {
			last = b
		}
		if b.Signer == h.Signer && b.Tree.N > newest.Tree.N {
			newest = b
		}
	}
	deny := func(format string, args ...any) error {
		return fmt.Errorf("%w: bundle %d (%s): "+format, append([]any{modproxy.ErrDenied, h.Sequence(), h.ID}, args...)...)
	}
	switch {
	case last.Sequence == h.Sequence():
		return deny("another bundle %d (%s) of its chain was imported on %s: to have what only this one brings, export --since that one",
			last.Sequence, last.ID, last.Time.UTC().Format(time.DateOnly))
	case last.Sequence > h.Sequence():
		return deny("it is older than bundle %d (%s) of its chain, which was imported on %s", last.Sequence, last.ID, last.Time.UTC().Format(time.DateOnly))
	case last.Sequence > 0 && h.Before[last.Sequence-1] != last.ID:
		return deny("it does not continue bundle %d (%s), which was imported: the chain has forked; export --since that one", last.Sequence, last.ID)
	case last.Sequence+1 < h.Sequence():
		return deny("bundle %d (%s) is missing: import that first", last.Sequence+1, h.Before[last.Sequence])
	case last.Sequence > 0:
		if err := tlog.CheckTree(h.Proof, h.Tree, h.Hash, last.Tree.N, last.Tree.Hash); err != nil {
			return deny("the ledger that it is of has forked or was replaced since bundle %d: %w", last.Sequence, err)
		}
	case newest.Tree.N == h.Tree && newest.Tree.Hash != h.Hash:
		return deny("the ledger that it is of has forked or was replaced since bundle %d (%s) of another chain", newest.Sequence, newest.ID)
	case newest.Tree.N > h.Tree && !x.NewChain:
		return deny("it is older than bundle %d (%s), which is of the same ledger and was imported on %s, or has less of it: --new-chain takes it all the same",
			newest.Sequence, newest.ID, newest.Time.UTC().Format(time.DateOnly))
	}
	return nil
}

// room returns an error unless there is room for what is new in the bundle.
func (x *imports) room(ctx context.Context) error {
	var size int64
	for _, p := range x.Index.Packages {
		if !slices.ContainsFunc(p.Versions, func(v Version) bool { return x.Cache.Holds(ctx, v.Ref, p.Sum) }) {
			size += p.Package.Size
		}
	}
	return x.Cache.Room(ctx, size)
}

// learn notes when a version was seen, and its entry in the registry's document.
func (x *imports) learn(e *Entry, i int) {
	v := e.Versions[i]
	x.mu.Lock()
	defer x.mu.Unlock()
	e.list(i, x.listed)
	if x.seen[v.Address] == nil {
		x.seen[v.Address] = map[string]modproxy.VersionSight{}
	}
	x.seen[v.Address][v.FullVersion()] = e.sight(i)
}

// list adds the entry of a version in the registry's document to listed. What was made of one has none.
func (e *Entry) list(i int, listed map[modproxy.Address][]modproxy.Listed) {
	v := e.Versions[i]
	if !v.IsListed() {
		return
	}
	bare, _ := json.Marshal(map[string]string{"version": v.Version}) // strings do not fail
	for _, entry := range [][]byte{e.Facts.Versions[i].Listed, bare} {
		document := fmt.Appendf(nil, `{"versions":[%s]}`, entry)
		if !v.IsProvider() {
			document = fmt.Appendf(nil, `{"modules":[%s]}`, document)
		}
		one, err := modproxy.ReadVersions(v.Address, document)
		if err == nil && len(one.List) == 1 && one.List[0].Version.String() == v.Version {
			listed[v.Address] = append(listed[v.Address], one.List[0])
			return
		}
	}
}
