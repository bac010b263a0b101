package admin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/mirror"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/policy"
)

// FirstSeen reads and records first-seen times.
type FirstSeen interface {
	bundle.FirstSeen
	Take(ctx context.Context, m modproxy.Address, seen map[string]modproxy.VersionDates) error
}

// Bundles has the settings for imports of bundles.
type Bundles struct {
	Keys     []string // verifier keys of trusted ledgers
	Releases bundle.Releases
	Scratch  string // a directory
	Limits   pack.Limits
}

// ExportRequest selects cached versions: those of Modules and those of Locked. With Closure, it also selects the versions that
// Starts lead to. A request without a selection selects all cached versions.
type ExportRequest struct {
	Modules []ModuleVersions `json:"wanted,omitempty"`
	Locked  []mirror.Locked  `json:"locked,omitempty"`
	Closure bool             `json:"closure,omitempty"`
	Starts  []closure.Start  `json:"starts,omitempty"` // as in a [mirror.Request]
	Groups  []string         `json:"groups,omitempty"` // of the client that the bundle is for
	Since   []byte           `json:"since,omitempty"`  // the beginning of the preceding bundle, see [bundle.ReadHead]
}

// ModuleVersions selects versions of a module.
type ModuleVersions struct {
	Module   string `json:"module"`
	Versions string `json:"versions,omitempty"` // a constraint; empty for any
}

// progressPeriod is the minimum time between two lines with progress.
const progressPeriod = time.Second

// ExportLine is a part of the answer. One field is set.
type ExportLine struct {
	Data    []byte       `json:"data,omitempty"`    // the next bytes of the bundle
	Refused *bundle.Item `json:"refused,omitempty"` // a selected version that is not in the bundle
	Bypass  *mirror.Note `json:"bypass,omitempty"`  // as in a [mirror.Line]
	Problem *mirror.Note `json:"problem,omitempty"`
	// Progress is sent at intervals while packages are read, and once with the size before the first Data.
	Progress *ExportProgress `json:"progress,omitempty"`
}

// ExportProgress is the progress of an export.
type ExportProgress struct {
	Checked  int   `json:"checked"` // versions whose packages were read
	Selected int   `json:"selected"`
	Size     int64 `json:"size_bytes,omitempty"` // of the bundle; zero until all packages are read
}

// BundleHead describes a bundle that was written or imported.
type BundleHead struct {
	ID       modproxy.Digest `json:"id"`
	Chain    modproxy.Digest `json:"chain"`
	Sequence int64           `json:"sequence"`
	Packages int             `json:"packages"`
	Versions int             `json:"versions"`
	Warnings []string        `json:"warnings,omitempty"` // reasons why clients of this proxy do not receive imported content
}

func headOf(h *bundle.Head) BundleHead {
	return BundleHead{h.ID, h.Chain(), h.Sequence(), len(h.Index.Packages), h.Count(), nil}
}

// unserved returns the reasons why clients of this proxy do not receive content of a bundle, in alphabetical order.
func (s *Server) unserved(h *bundle.Head) []string {
	why := map[string]bool{}
	for _, p := range h.Index.Packages {
		for _, v := range p.Versions {
			if _, err := s.Routing.Upstream(v.Address); err != nil {
				why[err.Error()+": clients do not get its imported packages"] = true
			}
			if v.IsModuleVariant() && s.Nested == nil {
				why["rewrite.nested is off: clients do not get the imported nested sources"] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(why))
}

// exportBundle answers with a bundle in pieces. The bundle has only versions that the policy allows for a client in the groups.
func (s *Server) exportBundle(ctx context.Context, in ExportRequest, each func(ExportLine)) (out BundleHead, err error) {
	refused := func(v modproxy.Ref, why error) {
		if errors.As(why, new(*modproxy.NotCached)) {
			why = errors.New("it is not cached")
		} else if named, ok := errors.AsType[*modproxy.Error](why); ok {
			why = named.Err
		}
		item := bundle.ItemOf(v, bundle.Refused, why.Error())
		each(ExportLine{Refused: &item})
	}
	selected, err := s.selectVersions(ctx, in, each, refused)
	if err != nil {
		return out, err
	}
	decisions, _, err := s.Ledger.Decisions(ctx, 0)
	if err != nil {
		return out, err
	}
	var stand []modproxy.Decision
	for i, stands := range policy.InForce(decisions, time.Time{}) { // with expired ones: the bundle does not depend on the clock
		if stands {
			stand = append(stand, decisions[i])
		}
	}
	kept := cache.New(cache.Config{Store: s.Store, Ledger: s.Ledger})
	defer kept.Close(ctx)
	x := bundle.Exporter{Registry: &policy.Registry{Next: kept, Gate: s.Gate}, Ledger: s.Ledger, FirstSeen: s.FirstSeen}
	if len(in.Since) > 0 {
		before, err := bundle.NewReader(bytes.NewReader(in.Since), s.Ledger.Verifier())
		if errors.As(err, new(*bundle.Untrusted)) {
			err = fmt.Errorf("%w: --since: the bundle is from another ledger", modproxy.ErrDenied)
		}
		if err != nil {
			return out, err
		}
		x.Since = before.Head
	}
	so, told := ExportProgress{Selected: len(selected)}, time.Now()
	ctx = modproxy.WithClient(ctx, modproxy.Client{Groups: in.Groups})
	made, err := x.Begin(ctx, selected, stand, func(v modproxy.Ref, why error) {
		if so.Checked++; why != nil {
			refused(v, why)
		} else if time.Since(told) >= progressPeriod {
			at := so
			each(ExportLine{Progress: &at})
			told = time.Now()
		}
	})
	if err != nil {
		return out, err
	}
	so.Size = made.Size()
	each(ExportLine{Progress: &so})
	w := bufio.NewWriterSize(pieces(func(p []byte) { each(ExportLine{Data: p}) }), 256<<10)
	head, err := made.Write(ctx, w)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return out, err
	}
	return headOf(head), nil
}

// selectVersions returns the versions that in selects and the caller may read, in order.
func (s *Server) selectVersions(
	ctx context.Context, in ExportRequest, each func(ExportLine), refused func(modproxy.Ref, error),
) ([]modproxy.Ref, error) {
	selection := &bundle.Selection{Cache: s.Cache, Ledger: s.Ledger, Refused: refused}
	if !in.Closure && len(in.Modules)+len(in.Locked) == 0 {
		if err := selection.AddAll(ctx); err != nil {
			return nil, err
		}
	}
	for _, one := range in.Modules {
		m, err := hostname.ParseAddress(one.Module, "")
		var c modproxy.Constraint // the zero constraint selects every version
		if err == nil && one.Versions != "" {
			c, err = modproxy.ParseConstraint(one.Versions)
		}
		if err == nil {
			err = selection.AddMatching(ctx, m, c)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, l := range in.Locked {
		v, err := l.Parse("")
		if err == nil {
			err = selection.AddLocked(ctx, v, l.Sum, l.Subdir, l.At)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := s.selectClosure(ctx, in, each, selection); err != nil {
		return nil, err
	}
	return selection.Versions(func(m modproxy.Address) error { return s.mayRead(ctx, m) })
}

// selectClosure adds the versions that the starts of in lead to.
func (s *Server) selectClosure(ctx context.Context, in ExportRequest, each func(ExportLine), selection *bundle.Selection) error {
	var called []versionname.Name
	_, err := s.engine().Check(ctx, mirror.Request{Starts: in.Starts, Providers: true, Groups: in.Groups}, func(line mirror.Line) {
		switch {
		case line.Package != nil:
			called = append(called, line.Package.Name)
		case line.Progress == nil:
			each(ExportLine{Bypass: line.Bypass, Problem: line.Problem})
		}
	})
	if err != nil {
		return err
	}
	for _, name := range called {
		v, err := name.Parse("")
		if err == nil {
			err = selection.AddVersion(ctx, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// BundleImportRequest is a bundle to import. For NewChain and AllDecisions, see [bundle.Importer].
type BundleImportRequest struct {
	LedgerImportRequest      // Keys are trusted in addition to those of the configuration
	NewChain            bool `json:"-"`
	AllDecisions        bool `json:"-"`
}

// importing is locked while this process imports a bundle.
var importing sync.Mutex

// importBundle reports the result for each version after it has read the whole bundle. Before that, the client sends the bundle
// and does not read the answer.
func (s *Server) importBundle(ctx context.Context, in BundleImportRequest, each func(bundle.Item)) (out BundleHead, err error) {
	if !importing.TryLock() {
		return out, fmt.Errorf("%w: another import is running: try again after it has ended", modproxy.ErrUnavailable)
	}
	defer importing.Unlock()
	trust, err := ledger.Verifiers(append(in.Keys, s.Bundles.Keys...)...)
	if err != nil {
		return out, err
	}
	x := bundle.Importer{
		Trust: trust, Ledger: s.Ledger, Cache: s.Cache, FirstSeen: s.FirstSeen, Gate: s.Gate, Scratch: s.Bundles.Scratch, Limits: s.Bundles.Limits,
		Releases: s.Bundles.Releases, NewChain: in.NewChain, AllDecisions: in.AllDecisions,
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
		if item.State == bundle.Added || item.State == bundle.Kept {
			v, err := versionname.Name{Module: item.Module, Version: item.Version, Platform: item.Platform}.Parse("")
			if err == nil {
				err = s.Gate.Check(ctx, v)
			}
			if err != nil {
				item.Reason = err.Error()
			}
		}
		each(item)
	}
	out = headOf(head)
	out.Warnings = s.unserved(head)
	if s.Operators != nil {
		s.Operators.Imported(out, items)
	}
	return out, nil
}

// A streamed request has a body that is not JSON. Its other fields are in the query.
type streamed interface {
	query() map[string][]string
	body() io.Reader
}

func (in LedgerImportRequest) query() map[string][]string { return map[string][]string{"key": in.Keys} }
func (in LedgerImportRequest) body() io.Reader            { return in.From }

func (in *LedgerImportRequest) read(query map[string][]string, body io.Reader) {
	*in = LedgerImportRequest{query["key"], body}
}

func (in BundleImportRequest) query() map[string][]string {
	q := in.LedgerImportRequest.query()
	for name, on := range map[string]bool{"new-chain": in.NewChain, "all-decisions": in.AllDecisions} {
		if on {
			q[name] = []string{"true"}
		}
	}
	return q
}

func (in *BundleImportRequest) read(query map[string][]string, body io.Reader) {
	in.LedgerImportRequest.read(query, body)
	in.NewChain, in.AllDecisions = len(query["new-chain"]) > 0, len(query["all-decisions"]) > 0
}

// IsStreamed reports whether a request is a stream, which can be sent only once.
func IsStreamed(in any) bool {
	_, ok := in.(streamed)
	return ok
}
