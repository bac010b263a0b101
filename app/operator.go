package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/downloads"
	"github.com/modproxy/modproxy/internal/datadir"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/sights"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

// api returns the operator's API of what is open.
func (a *App) api() *admin.Server {
	server := &admin.Server{
		Ledger: a.Ledger, Damage: a.damage, Store: a.Store, Gate: a.gate, Pending: a.pending, Missing: a.missing, Operators: operators{a},
		Routing: routes{a.config}, Configurations: a.reader, Offline: a.config.Offline,
		Bundles: admin.Bundles{
			Keys: a.config.Bundle.Keys, Releases: releasesOf(a.config), Scratch: a.scratch(), Limits: a.limits(),
		},
	}
	if a.nested != nil {
		server.Nested = a.nested
	}
	if a.Store != nil {
		server.Programs = &downloads.Registry{Records: a.Store.Records}
		if a.counts != nil {
			server.Programs = a.counts
		}
		server.Sights = &sights.Registry{Records: a.Store.Records} // which asks no registry for dates
	}
	if a.Cache != nil {
		server.Cache = a.Cache
		if a.Cache.Next != nil {
			server.Upstreams, server.Listing = a.config, a.said
		}
	}
	return server
}

// operators implements [admin.Operators].
type operators struct{ *App }

// Operator names the operator that asks by a token, and nobody else.
func (operators) Operator(ctx context.Context) string {
	if p := auth.PrincipalOf(ctx); p.Kind != auth.Nobody && p.Kind != auth.ByOwner {
		return p.String()
	}
	return ""
}

// MayRead returns an error for what the scopes of an operator's token do not cover, unless clients need no token at all.
func (o operators) MayRead(ctx context.Context, m modproxy.Address) error {
	if o.auth == nil {
		return nil
	}
	return outside(ctx, m, auth.Grant.MayRead)
}

// MayRefresh returns an error for what a client that is no operator may not refresh.
func (operators) MayRefresh(ctx context.Context, m modproxy.Address) error {
	return outside(ctx, m, auth.Grant.MayRefresh)
}

// outside returns nil if the grant of the caller covers m, and for this process and the owner of the data directory. Its error is the
// same whether m exists or not.
func outside(ctx context.Context, m modproxy.Address, covers func(auth.Grant, modproxy.Address) bool) error {
	p := auth.PrincipalOf(ctx)
	if p.Kind == auth.Nobody || p.Kind == auth.ByOwner || covers(p.Grant, m) {
		return nil
	}
	return &auth.Outside{Principal: p, Address: m}
}

// Decided logs a decision: the entry of its request does not say what it is about.
func (o operators) Decided(d modproxy.Decision) {
	o.logEvent(nil, "decided", d.Address.At(""), nil, unless(d.Versions == "", zap.String("versions", d.Versions)),
		zap.String("action", string(d.Action)), unless(d.Until.IsZero(), zap.Time("until", d.Until)),
		zap.String("by", d.By), unless(d.Reason == "", zap.String("reason", d.Reason)))
}

// Imported logs an import: the entry of its request does not say of what.
func (o operators) Imported(b admin.BundleHead, items []bundle.Item) {
	fields := []zap.Field{zap.Stringer("chain", b.Chain), zap.Int64("sequence", b.Sequence)}
	for _, state := range []bundle.State{bundle.Added, bundle.Kept, bundle.Refused, bundle.Absent, bundle.Decided} {
		n := 0
		for _, item := range items {
			if item.State == state {
				n++
			}
		}
		fields = append(fields, zap.Int(string(state), n))
	}
	o.logEvent(nil, "imported", modproxy.Ref{}, nil, fields...)
}

// OpenAPI returns the operator's API of a part of the data directory, for this process only. The directory must be
// claimed, but for [admin.ReadLedger]. done releases it.
func OpenAPI(ctx context.Context, c *config.Config, access admin.Access, o Options) (_ *admin.Client, done func() error, err error) {
	a := inside(c, o)
	switch access {
	case admin.UsePackages:
		err = a.openPackages(ctx, disk.Options{})
	case admin.UseDamagedPackages:
		err = a.openPackages(ctx, disk.Options{Damaged: true})
	case admin.UsePolicy:
		err = a.openVerdicts(ctx)
	case admin.UseRegistries:
		alone := *c
		alone.Anonymous = config.Anonymous{All: true} // only this process can ask
		a.config = &alone
		if err = a.open(ctx, nil); err == nil && a.ReadOnly() != nil {
			err = fmt.Errorf("the data directory is read-only: %w", a.ReadOnly())
		}
	default:
		err = a.openLedgerAlone(access)
	}
	if err != nil {
		return nil, nil, errors.Join(err, a.Close())
	}
	return admin.Inside(a.api()), a.Close, nil
}

// openLedgerAlone opens the ledger and nothing else: the index may be lost or damaged.
func (a *App) openLedgerAlone(access admin.Access) (err error) {
	dir, open := a.config.LedgerDir(), ledger.Open
	if access == admin.ReadLedger {
		open = ledger.OpenReadOnly
	}
	if access != admin.CreateLedger {
		if err = datadir.Check(a.config.Data); err == nil {
			err = datadir.CheckDir(dir, "ledger")
		}
	}
	if err == nil {
		a.Ledger, err = open(dir)
	}
	return err
}

// openPackages opens the stored packages and the ledger. If the ledger cannot be read, verify reports that as damage. A ledger that
// was not created completely is treated as missing.
func (a *App) openPackages(ctx context.Context, o disk.Options) error {
	if err := a.openStore(ctx, o); err != nil {
		return err
	}
	if _, err := os.Stat(a.config.LedgerDir()); !errors.Is(err, fs.ErrNotExist) {
		if err := a.openLedgerAlone(admin.ReadLedger); !errors.Is(err, ledger.ErrNotCreated) {
			a.damage = err
		}
	}
	a.Cache = &cache.Registry{Store: a.Store}
	if a.Ledger != nil {
		a.gate = &policy.Gate{Ledger: a.Ledger}
	}
	if a.Ledger != nil && a.Ledger.HasRecords() { // else it says nothing of what is kept
		a.Store.Kinds[cache.PackageKind], a.Cache.Ledger = keeperOf(a.Ledger), a.Ledger
	}
	return nil
}

// openVerdicts opens what verdicts are made of. No registry is asked.
func (a *App) openVerdicts(ctx context.Context) error {
	if err := a.openStore(ctx, disk.Options{}); err != nil {
		return err
	}
	if err := a.openLedger(ctx); err != nil {
		return err
	}
	a.Cache = &cache.Registry{Store: a.Store, Ledger: a.Ledger}
	return a.openGate(ctx)
}

// BeginLedger makes a ledger of the kept packages, or goes on making it, and returns how many records that has then.
func BeginLedger(ctx context.Context, c *config.Config) (records int64, err error) {
	a := inside(c, Options{})
	defer func() { err = errors.Join(err, a.Close()) }()
	if err = a.openStore(ctx, disk.Options{}); err == nil {
		a.Ledger, err = ledger.Open(c.LedgerDir())
	}
	if err != nil {
		return 0, err
	}
	a.Cache = &cache.Registry{Store: a.Store, Ledger: a.Ledger}
	var kept []cache.Kept
	sums, before := map[modproxy.Ref]modproxy.Sum{}, a.Ledger.Tree().N
	signers := map[modproxy.Address]modproxy.Keys{}
	for p, err := range a.Cache.List(ctx, modproxy.Address{}) {
		if err != nil {
			return 0, err
		}
		kept, sums[p.Ref] = append(kept, p.Kept), p.Sum
		if keys := p.Facts.Keys; keys != "" {
			signers[p.Address] = signers[p.Address].With(keys)
		}
	}
	for r, err := range a.Ledger.All(ctx) {
		if err == nil && sums[r.Ref] != r.Sum && r.Ref != r.Address.SigningKeys() {
			err = errHasLedger
		}
		if err != nil {
			return 0, err
		}
	}
	for m, keys := range signers { // whoever has signed what is kept may sign what comes
		rec := keys.Record(m)
		rec.Time = time.Now()
		if err := a.Ledger.Add(ctx, rec); err != nil {
			return 0, fmt.Errorf("%s: %w", rec.Shown(), err)
		}
	}
	slices.SortStableFunc(kept, func(p, q cache.Kept) int { return p.Fetched.Compare(q.Fetched) })
	for _, p := range kept {
		if err := a.Cache.Record(ctx, &p); errors.Is(err, modproxy.ErrChanged) { // another spelling, which was fetched before, has other content
			continue
		} else if err != nil {
			return 0, fmt.Errorf("%s: %w", p.Ref.Shown(), err)
		}
	}
	if before > 0 && a.Ledger.Tree().N == before {
		return 0, errHasLedger
	}
	return a.Ledger.Tree().N, nil
}

var errHasLedger = fmt.Errorf("%w: there is a ledger already", modproxy.ErrInvalid)

// Rebuilt is what a rebuild has made.
type Rebuilt struct {
	Problem string         `json:"problem,omitempty"`         // with the old index; empty: it could be opened
	Aside   string         `json:"aside,omitempty"`           // where the old index is now; empty: there was none
	Lists   int            `json:"versions"`                  // lists of versions that were taken over
	Left    int            `json:"records_damaged,omitempty"` // records of the old index that were damaged, and left out
	Damaged []admin.Damage `json:"damaged,omitempty"`         // packages, which were set aside
	store.Verified
}

// Rebuild makes a new index of the packages, which it reads, and of the ledger.
func Rebuild(ctx context.Context, c *config.Config) (out Rebuilt, err error) {
	book, err := ledger.OpenReadOnly(c.LedgerDir())
	if err != nil {
		return out, err
	}
	defer book.Close()
	index, err := disk.Renew(ctx, c.Data)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, index.Close()) }()
	kept := &store.Store{
		Records: index.Records(), Blobs: index.Blobs(), Aside: index,
		Kinds: map[store.Kind]store.Keeper{cache.PackageKind: keeperOf(book)},
	}
	out.Problem, out.Lists, out.Left = index.Problem, index.Kept[cache.VersionsKind], index.Damaged
	out.Verified, err = kept.Rebuild(ctx, store.Check{Found: func(d store.Damage) {
		out.Damaged = append(out.Damaged, admin.DamageOf(d))
	}})
	if err == nil {
		out.Aside, err = index.Finish()
	}
	return out, errors.Join(err, kept.Close(ctx))
}
