package bundle

import (
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

// An Importer imports bundles.
type Importer struct {
	Trust     note.Verifiers
	Ledger    *ledger.Log
	Releases  Releases
	Cache     Cache
	FirstSeen interface {
		// Take records the first-seen times of the exporting side.
		Take(ctx context.Context, m modproxy.Address, seen map[string]modproxy.VersionDates) error
	}
	Gate interface {
		// Follow reads the decisions that were made since the last call.
		Follow(ctx context.Context) error
		// Place returns the decisions in force that d meets.
		Place(ctx context.Context, d modproxy.Decision) (policy.Position, error)
	}
	Scratch      string      // the directory for packages while they are verified
	Limits       pack.Limits // of each package
	NewChain     bool        // accept a bundle that begins a chain, although it may be older than an imported bundle of the same ledger
	AllDecisions bool        // also take over approvals, and decisions that end a block or a deprecation
}

// Cache stores packages.
type Cache interface {
	// Room returns an error if the store lacks room for so many more bytes.
	Room(ctx context.Context, bytes int64) error
	// IsStored reports whether the package of a version is stored, undamaged and has this sum.
	IsStored(ctx context.Context, v modproxy.Ref, sum modproxy.Sum) bool
	// Keep stores a package whose version has a record in the ledger. It does not close the package.
	Keep(ctx context.Context, v modproxy.Ref, p *modproxy.Package) error
	// Learn stores entries of a registry's document.
	Learn(ctx context.Context, m modproxy.Address, entries []modproxy.Listed) error
}

// State is the result for a version or a decision of a bundle.
type State string

const (
	Added   State = "added"   // Reason, if any, is why clients cannot use it
	Kept    State = "kept"    // stored here before; Reason as above
	Refused State = "refused" // Reason is why
	Absent  State = "absent"  // an earlier bundle had it, and it is not stored here; Reason is the remedy: to import that bundle again
	Decided State = "decided" // Reason is the decision, which was taken over
)

// An Item is the result for a version or a decision.
type Item struct {
	Module   string `json:"module"`
	Version  string `json:"version,omitempty"`  // empty for a decision
	Platform string `json:"platform,omitempty"` // of the package of a provider for one platform
	State    State  `json:"state"`
	Reason   string `json:"reason,omitempty"`
}

// ItemOf returns the item of a version.
func ItemOf(v modproxy.Ref, state State, reason string) Item {
	version, platform := v.VersionPlatform()
	return Item{v.Address.String(), version, platform, state, reason}
}

// imports is the state of one import.
type imports struct {
	*Importer
	*Head
	groups map[modproxy.Ref]*group

	mu     sync.Mutex // guards the fields below
	listed map[modproxy.Address][]modproxy.Listed
	seen   map[modproxy.Address]map[string]modproxy.VersionDates
}

// Import imports a bundle and returns the results. Each package is verified before it is published as a whole. If Import fails,
// published packages stay, and the next import skips them. At the end the ledger records that the bundle was imported, even if some
// versions were refused: the next bundle of the chain can then be imported. The same bundle can be imported again, which adds
// refused and lost versions if they can be added now.
//
// Errors: those of [NewReader] and [Reader.Next]; [modproxy.ErrDenied] if the bundle is older than an imported one, is not of the
// ledger of its chain, or the bundle before it was not imported; those of the storage.
func (x *Importer) Import(ctx context.Context, r io.Reader) (*Head, []Item, error) {
	b, err := NewReader(r, x.Trust)
	if err != nil {
		return nil, nil, err
	}
	i := &imports{
		Importer: x, Head: b.Head, groups: groups(b.Index), listed: map[modproxy.Address][]modproxy.Listed{},
		seen: map[modproxy.Address]map[string]modproxy.VersionDates{},
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
		return nil, nil, fmt.Errorf("%w; %d of %d versions are stored, and the next import continues from there", err, kept, b.Count())
	}
	items = append(items, packages...)
	for m, entries := range i.listed {
		if err := x.Cache.Learn(ctx, m, entries); err != nil {
			return nil, nil, err
		}
		if err := x.FirstSeen.Take(ctx, m, i.seen[m]); err != nil {
			return nil, nil, err
		}
	}
	for _, v := range b.Index.Before {
		if v.Gone || x.Cache.IsStored(ctx, v.Version.Ref, v.Sum) {
			continue
		}
		newer, err := i.superseded(ctx, modproxy.Record{Ref: v.Version.Ref, Sum: v.Sum})
		if err != nil {
			return nil, nil, err
		}
		if newer == "" {
			why := fmt.Sprintf("it was in bundle %d (%s) and is not stored any more: import that bundle again", v.Bundle, b.Before[v.Bundle-1])
			items = append(items, ItemOf(v.Version.Ref, Absent, why))
		}
	}
	return b.Head, items, x.Ledger.AddBundle(ctx, ledger.Bundle{
		ID: b.ID, Chain: b.Chain(), Sequence: b.Sequence(), Tree: b.Root(), Signer: b.Signer, Time: time.Now(),
	})
}

// admit returns the reason why the bundle may not be imported now, or nil.
func (x *imports) admit(ctx context.Context) error {
	h := x.Head
	var last ledger.Bundle   // of this chain
	var newest ledger.Bundle // of the exporting ledger
	for b, err := range x.Ledger.Bundles(ctx) {
		switch {
		case err != nil:
			return err
		case b.ID == h.ID:
			return nil // a repeated import restores lost packages
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
		return deny("another bundle %d (%s) of its chain was imported on %s: to get the content that only this bundle has, export --since that one",
			last.Sequence, last.ID, last.Time.UTC().Format(time.DateOnly))
	case last.Sequence > h.Sequence():
		return deny("it is older than bundle %d (%s) of its chain, which was imported on %s", last.Sequence, last.ID, last.Time.UTC().Format(time.DateOnly))
	case last.Sequence > 0 && h.Before[last.Sequence-1] != last.ID:
		return deny("it does not continue bundle %d (%s), which was imported: the chain has forked; export --since that one", last.Sequence, last.ID)
	case last.Sequence+1 < h.Sequence():
		return deny("bundle %d (%s) is missing: import that first", last.Sequence+1, h.Before[last.Sequence])
	case last.Sequence > 0:
		if err := tlog.CheckTree(h.Proof, h.Tree, h.Hash, last.Tree.N, last.Tree.Hash); err != nil {
			return deny("its ledger has forked or was replaced since bundle %d: %w", last.Sequence, err)
		}
	case newest.Tree.N == h.Tree && newest.Tree.Hash != h.Hash:
		return deny("its ledger has forked or was replaced since bundle %d (%s) of another chain", newest.Sequence, newest.ID)
	case newest.Tree.N > h.Tree && !x.NewChain:
		return deny("it is older than bundle %d (%s), which is of the same ledger and was imported on %s, or its tree is smaller: use --new-chain to import it anyway",
			newest.Sequence, newest.ID, newest.Time.UTC().Format(time.DateOnly))
	}
	return nil
}

// room returns an error unless there is room for the new packages of the bundle.
func (x *imports) room(ctx context.Context) error {
	var size int64
	for _, p := range x.Index.Packages {
		if !slices.ContainsFunc(p.Versions, func(v Version) bool { return x.Cache.IsStored(ctx, v.Ref, p.Sum) }) {
			size += p.Package.Size
		}
	}
	return x.Cache.Room(ctx, size)
}

// learn collects the first-seen time of a version and its entry in the registry's document.
func (x *imports) learn(e *Entry, i int) {
	v := e.Versions[i]
	x.mu.Lock()
	defer x.mu.Unlock()
	e.list(i, x.listed)
	if x.seen[v.Address] == nil {
		x.seen[v.Address] = map[string]modproxy.VersionDates{}
	}
	x.seen[v.Address][v.FullVersion()] = e.firstSeen(i)
}

// list adds the entry of a version in the registry's document to listed. Variants have no entry.
func (e *Entry) list(i int, listed map[modproxy.Address][]modproxy.Listed) {
	v := e.Versions[i]
	if !v.IsListed() {
		return
	}
	bare, _ := json.Marshal(map[string]string{"version": v.Version}) // strings always marshal
	for _, entry := range [][]byte{e.Facts.Versions[i].Listed, bare} {
		document := fmt.Appendf(nil, `{"versions":[%s]}`, entry)
		switch v.Kind() {
		case modproxy.Module:
			document = fmt.Appendf(nil, `{"modules":[%s]}`, document)
		case modproxy.Provider:
		}
		one, err := modproxy.ReadVersions(v.Address, document)
		if err == nil && len(one.List) == 1 && one.List[0].Version.String() == v.Version {
			listed[v.Address] = append(listed[v.Address], one.List[0])
			return
		}
	}
}
