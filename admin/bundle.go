package admin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/policy"
)

// Sights are what the server needs of package sights.
type Sights interface {
	bundle.Sights
	Take(ctx context.Context, m modproxy.Module, seen map[string]modproxy.VersionSight) error
}

// Bundles are what bundles are imported with.
type Bundles struct {
	Keys    []string // whose bundles are taken
	Scratch string   // a directory
	Limits  pack.Limits
}

// Export chooses versions that are kept: those that are wanted, and those that are locked; all of them if there is neither.
type Export struct {
	Wanted []Wanted `json:"wanted,omitempty"`
	Locked []Locked `json:"locked,omitempty"`
	Groups []string `json:"groups,omitempty"` // of the client that it is for
	Since  []byte   `json:"since,omitempty"`  // the beginning of the bundle before, see [bundle.ReadHead]
}

// Exported is a piece of a bundle, or a version that is not in it.
type Exported struct {
	Data    []byte       `json:"data,omitempty"`
	Refused *bundle.Item `json:"refused,omitempty"`
}

// BundleHead says which bundle was written or imported.
type BundleHead struct {
	ID       modproxy.Digest `json:"id"`
	Chain    modproxy.Digest `json:"chain"`
	Sequence int64           `json:"sequence"`
	Packages int             `json:"packages"`
	Versions int             `json:"versions"`
}

func headOf(h *bundle.Head) BundleHead {
	return BundleHead{h.ID, h.Chain(), h.Sequence(), len(h.Index.Packages), h.Count()}
}

// exportBundle answers with a bundle in pieces. What it has is what a client in the groups may have.
func (s *Server) exportBundle(ctx context.Context, in Export, each func(Exported)) (out BundleHead, err error) {
	refused := func(v modproxy.ModuleVersion, why error) {
		if errors.As(why, new(*modproxy.NotKept)) {
			why = errors.New("it is not kept")
		} else if named, ok := errors.AsType[*modproxy.Error](why); ok {
			why = named.Err
		}
		item := bundle.ItemOf(v, bundle.Refused, why.Error())
		each(Exported{Refused: &item})
	}
	selected, err := s.selected(ctx, in, refused)
	if err != nil {
		return out, err
	}
	decisions, _, err := s.Ledger.Decisions(ctx, 0)
	if err != nil {
		return out, err
	}
	var stand []modproxy.Decision
	for i, stands := range policy.Standing(decisions, time.Time{}) { // also those that have ended: the clock makes no other bundle
		if stands {
			stand = append(stand, decisions[i])
		}
	}
	kept := &cache.Registry{Store: s.Store, Ledger: s.Ledger}
	defer kept.Close(ctx)
	x := bundle.Exporter{Registry: &policy.Registry{Next: kept, Gate: s.Gate}, Ledger: s.Ledger, Sights: s.Sights}
	if len(in.Since) > 0 {
		before, err := bundle.NewReader(bytes.NewReader(in.Since), s.Ledger.Verifier())
		if errors.As(err, new(*bundle.Untrusted)) {
			err = fmt.Errorf("%w: --since: that bundle is of another ledger", modproxy.ErrDenied)
		}
		if err != nil {
			return out, err
		}
		x.Since = before.Head
	}
	w := bufio.NewWriterSize(pieces(func(p []byte) { each(Exported{Data: p}) }), 256<<10)
	head, err := x.Export(modproxy.WithAsker(ctx, modproxy.Asker{Groups: in.Groups}), w, selected, stand, refused)
	if err = cmp.Or(err, w.Flush()); err != nil {
		return out, err
	}
	return headOf(head), nil
}

// selected returns the versions that in chooses, in order.
func (s *Server) selected(ctx context.Context, in Export, refused func(modproxy.ModuleVersion, error)) (list []modproxy.ModuleVersion, err error) {
	add := func(m modproxy.Module, selects func(modproxy.Version) bool) (found bool, err error) {
		for l, err := range s.Cache.List(ctx, m) {
			version, bad := modproxy.ParseVersion(l.Version)
			switch {
			case l.Version == "" && err != nil:
				return found, err
			case err != nil:
				refused(l.ModuleVersion, err)
			case bad == nil && !l.Superseded && selects(version):
				found, list = true, append(list, l.ModuleVersion)
			}
		}
		return found, nil
	}
	if len(in.Wanted)+len(in.Locked) == 0 {
		_, err = add(modproxy.Module{}, func(modproxy.Version) bool { return true })
	}
	for _, one := range in.Wanted {
		m, errParse := hostname.ParseModule(one.Module, "")
		if errParse != nil {
			return nil, errParse
		}
		selects := func(modproxy.Version) bool { return true }
		if one.Versions != "" {
			constraint, err := modproxy.ParseConstraint(one.Versions)
			if err != nil {
				return nil, err
			}
			selects = constraint.Selects
		}
		found, errList := add(m, selects)
		if errList != nil {
			return nil, errList
		}
		if !found {
			refused(m.At(""), fmt.Errorf("no version of it is kept that was selected: %s", strings.TrimSpace(m.String()+" "+one.Versions)))
		}
	}
	for _, l := range in.Locked {
		v, err := l.Parse("")
		if err != nil {
			return nil, err
		}
		rec, err := modproxy.LookupAs(ctx, s.Ledger, v, l.Sum)
		if err == nil && !rec.Is(l.Sum, l.Subdir) {
			refused(v, fmt.Errorf("the ledger has %s, and %s has %s", rec.Sum, l.At, l.Sum))
			continue
		}
		v, _ = v.Origin()
		list = append(list, v) // what has no record is not kept
		made := func(version modproxy.Version) bool {
			of, what := v.Module.At(version.String()).Origin()
			return of == v && what != ""
		}
		if _, err := add(v.Module, made); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b modproxy.ModuleVersion) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(list), err
}

// BundleImport is a bundle.
type BundleImport struct {
	Import            // Keys are taken besides those of the configuration
	NewChain     bool `json:"-"`
	AllDecisions bool `json:"-"`
}

// importing is held while this process imports a bundle.
var importing sync.Mutex

// errImporting is the error while a bundle is being imported.
var errImporting = fmt.Errorf("%w: another import is under way: try again when that has ended", modproxy.ErrUnavailable)

// importBundle tells of each version what became of it, when all of the bundle was read: until then nobody listens.
func (s *Server) importBundle(ctx context.Context, in BundleImport, each func(bundle.Item)) (out BundleHead, err error) {
	if !importing.TryLock() {
		return out, errImporting
	}
	defer importing.Unlock()
	trust, err := ledger.Verifiers(append(in.Keys, s.Bundles.Keys...)...)
	if err != nil {
		return out, err
	}
	x := bundle.Importer{
		Trust: trust, Ledger: s.Ledger, Cache: s.Cache, Sights: s.Sights, Gate: s.Gate, Scratch: s.Bundles.Scratch, Limits: s.Bundles.Limits,
		NewChain: in.NewChain, AllDecisions: in.AllDecisions,
	}
	_, before, err := s.Ledger.Decisions(ctx, 0)
	if err != nil {
		return out, err
	}
	head, items, err := x.Import(ctx, in.From)
	made, _, errMade := s.Ledger.Decisions(ctx, before)
	for _, d := range made {
		if s.Operators != nil && strings.HasPrefix(d.By, bundle.By) {
			s.Operators.Decided(d)
		}
	}
	if err = cmp.Or(err, errMade); err != nil {
		return out, err
	}
	for _, item := range items {
		each(item)
	}
	return headOf(head), nil
}

// A streamed request has a body that is not JSON; the rest of it is in the query.
type streamed interface {
	query() map[string][]string
	body() io.Reader
}

func (in Import) query() map[string][]string { return map[string][]string{"key": in.Keys} }
func (in Import) body() io.Reader            { return in.From }

func (in *Import) read(query map[string][]string, body io.Reader) { *in = Import{query["key"], body} }

func (in BundleImport) query() map[string][]string {
	q := in.Import.query()
	for name, on := range map[string]bool{"new-chain": in.NewChain, "all-decisions": in.AllDecisions} {
		if on {
			q[name] = []string{"true"}
		}
	}
	return q
}

func (in *BundleImport) read(query map[string][]string, body io.Reader) {
	in.Import.read(query, body)
	in.NewChain, in.AllDecisions = len(query["new-chain"]) > 0, len(query["all-decisions"]) > 0
}

// Streams reports whether a request can be sent only once.
func Streams(in any) bool {
	_, ok := in.(streamed)
	return ok
}
