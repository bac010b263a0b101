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
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/internal/datadir"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

// api returns the operator's API of a whole proxy.
func (a *App) api() *admin.Server {
	server := a.policyAPI()
	server.Programs = a.counts
	if a.config.Rewrite.Nested {
		server.Nested = a.nested
	}
	if !a.config.Offline {
		server.Upstreams, server.Listing = a.config, a.documents
	}
	return server
}

// policyAPI returns the operator's API over the parts that verdicts need.
func (a *App) policyAPI() *admin.Server {
	server := a.packagesAPI()
	server.FirstSeen = recorded{a.firstSeen}
	if a.config.Offline {
		server.Missing = a.missing
	}
	return server
}

// packagesAPI returns the operator's API over the ledger and the stored packages.
func (a *App) packagesAPI() *admin.Server {
	server := a.ledgerAPI()
	server.Cache, server.Programs = a.Cache, history.NewDownloads(a.Store.Records, nil)
	return server
}

// ledgerAPI returns the operator's API over the ledger.
func (a *App) ledgerAPI() *admin.Server {
	c := a.config
	return &admin.Server{
		Ledger: a.Ledger, Damage: a.damage, Store: a.Store, Gate: a.gate, Pending: a.pending, Operators: operators{a},
		Routing: routes{c}, Configurations: a.reader, Offline: c.Offline,
		Backups: a.backups(), Bundles: admin.Bundles{Keys: c.Bundle.Keys, Releases: releasesOf(c), Scratch: a.scratch(), Limits: a.limits()},
	}
}

// operators implements [admin.Operators].
type operators struct{ *App }

// Operator returns the name of an operator with a token. For other callers it returns an empty string.
func (operators) Operator(ctx context.Context) string {
	if p := auth.PrincipalOf(ctx); p.Kind != auth.Nobody && p.Kind != auth.ByOwner {
		return p.String()
	}
	return ""
}

// MayRead returns an error if clients need a token and the scopes of the operator's token do not cover m.
func (o operators) MayRead(ctx context.Context, m modproxy.Address) error {
	if o.auth == nil {
		return nil
	}
	return outside(ctx, m, auth.Grant.MayRead)
}

// MayRefresh returns an error if the caller's token does not allow refreshing m.
func (operators) MayRefresh(ctx context.Context, m modproxy.Address) error {
	return outside(ctx, m, auth.Grant.MayRefresh)
}

// outside returns nil if the grant of the caller covers m, or if the caller is this process or the owner of the data directory.
// The error does not depend on whether m exists.
func outside(ctx context.Context, m modproxy.Address, covers func(auth.Grant, modproxy.Address) bool) error {
	p := auth.PrincipalOf(ctx)
	if p.Kind == auth.Nobody || p.Kind == auth.ByOwner || covers(p.Grant, m) {
		return nil
	}
	return &auth.Outside{Principal: p, Address: m}
}

// Decided logs a decision, because the log entry of its request does not have the modules and versions.
func (o operators) Decided(d modproxy.Decision) {
	o.logVersion("decided", false, d.Address.At(""), nil, unless(d.Versions == "", zap.String("versions", d.Versions)),
		zap.String("action", string(d.Action)), unless(d.Until.IsZero(), zap.Time("until", d.Until)),
		zap.String("by", d.By), unless(d.Reason == "", zap.String("reason", d.Reason)))
}

// Imported logs an import, because the log entry of its request does not have the bundle.
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
	logEvent(o.log, "imported", nil, fields...)
}

// OpenAPI opens a part of the data directory and returns a client of its operator's API for this process. The caller must have
// claimed the directory, except for [admin.ReadLedger]. done releases the opened part.
func OpenAPI(ctx context.Context, c *config.Config, access admin.Access, o Options) (_ *admin.Client, done func() error, err error) {
	a := inside(c, o)
	api := a.ledgerAPI
	switch access {
	case admin.UsePackages:
		api, err = a.packagesAPI, a.openPackages(ctx, disk.Options{})
	case admin.UseDamagedPackages:
		api, err = a.packagesAPI, a.openPackages(ctx, disk.Options{Damaged: true})
	case admin.UsePolicy:
		api, err = a.policyAPI, a.openVerdicts(ctx)
	case admin.UseRegistries:
		api = a.api
		alone := *c
		alone.Anonymous = config.Anonymous{All: true} // this process is the only client
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
	return admin.Inside(api()), a.Close, nil
}

// openLedgerAlone opens only the ledger, so that it works if the index is lost or damaged.
func (p *parts) openLedgerAlone(access admin.Access) error {
	dir, open := p.config.LedgerDir(), ledger.Open
	if access == admin.ReadLedger {
		open = ledger.OpenReadOnly
	}
	if access != admin.CreateLedger {
		if err := datadir.Check(p.config.Data); err != nil {
			return err
		}
		if err := datadir.CheckDir(dir, "ledger"); err != nil {
			return err
		}
	}
	ledgerLog, err := open(dir)
	if err == nil {
		p.useLedger(ledgerLog)
	}
	return err
}

// openPackages opens the stored packages and the ledger. If the ledger cannot be read, verify reports that as damage. A ledger
// that was not created completely is treated as missing. A ledger without records does not verify packages.
func (a *App) openPackages(ctx context.Context, o disk.Options) error {
	if err := a.openDisk(ctx, o); err != nil {
		return err
	}
	if _, err := os.Stat(a.config.LedgerDir()); !errors.Is(err, fs.ErrNotExist) {
		if err := a.openLedgerAlone(admin.ReadLedger); !errors.Is(err, ledger.ErrNotCreated) {
			a.damage = err
		}
	}
	ledgerLog := a.Ledger
	if ledgerLog != nil {
		a.gate = policy.NewGate(ledgerLog, nil)
		if !ledgerLog.HasRecords() {
			ledgerLog = nil
		}
	}
	a.openStore(ledgerLog)
	a.layers = inspect(a.Store, ledgerLog)
	return nil
}

// openVerdicts opens the parts that verdicts need. It makes no request to registries.
func (a *App) openVerdicts(ctx context.Context) error {
	if err := a.openData(ctx); err != nil {
		return err
	}
	a.gate, a.layers = policy.NewGate(a.Ledger, nil), inspect(a.Store, a.Ledger)
	return a.openGate(ctx, nil)
}

// BeginLedger creates a ledger from the stored packages, or completes one whose creation was interrupted. It returns the number
// of records. If another ledger exists, the error matches [modproxy.ErrInvalid].
func BeginLedger(ctx context.Context, c *config.Config) (records int64, err error) {
	a := inside(c, Options{})
	defer func() { err = errors.Join(err, a.Close()) }()
	if err = a.openDisk(ctx, disk.Options{}); err != nil {
		return 0, err
	}
	if err = a.openLedgerAlone(admin.CreateLedger); err != nil {
		return 0, err
	}
	a.openStore(nil)
	a.layers = inspect(a.Store, a.Ledger)
	var kept []cache.StoredPackage
	sums, before := map[modproxy.Ref]modproxy.Sum{}, a.Ledger.Tree().N
	signers := map[modproxy.Address]modproxy.Keys{}
	for p, err := range a.Cache.List(ctx, modproxy.Address{}) {
		if err != nil {
			return 0, err
		}
		kept, sums[p.Ref] = append(kept, p.StoredPackage), p.Sum
		if keys := p.Facts.Keys; keys != "" {
			signers[p.Address] = signers[p.Address].Union(keys)
		}
	}
	for r, err := range a.Ledger.All(ctx) {
		if err == nil && sums[r.Ref] != r.Sum && r.Content() != modproxy.KeysContent {
			err = errHasLedger
		}
		if err != nil {
			return 0, err
		}
	}
	for m, keys := range signers { // the signers of stored releases may sign later ones
		rec := keys.Record(m)
		rec.Time = time.Now()
		if err := a.Ledger.Add(ctx, rec); err != nil {
			return 0, fmt.Errorf("%s: %w", rec.Shown(), err)
		}
	}
	slices.SortStableFunc(kept, func(p, q cache.StoredPackage) int { return p.Fetched.Compare(q.Fetched) })
	for _, p := range kept {
		if err := a.Cache.Record(ctx, &p); errors.Is(err, modproxy.ErrChanged) { // an earlier spelling has other content
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

var errHasLedger = fmt.Errorf("%w: a ledger already exists", modproxy.ErrInvalid)

// Rebuilt is the result of a rebuild.
type Rebuilt struct {
	Problem string         `json:"problem,omitempty"`         // with the old index; empty if it could be opened
	Aside   string         `json:"aside,omitempty"`           // the new path of the old index; empty if no index existed
	Lists   int            `json:"versions"`                  // the number of lists of versions taken from the old index
	Left    int            `json:"records_damaged,omitempty"` // the number of damaged records of the old index, which are left out
	Damaged []admin.Damage `json:"damaged,omitempty"`         // damaged packages, which are quarantined
	store.Verified
}

// Rebuild creates a new index from the ledger and the stored packages. It reads all packages.
func Rebuild(ctx context.Context, c *config.Config) (out Rebuilt, err error) {
	ledgerLog, err := ledger.OpenReadOnly(c.LedgerDir())
	if err != nil {
		return out, err
	}
	defer ledgerLog.Close()
	index, err := disk.Renew(ctx, c.Data)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, index.Close()) }()
	kept := store.New(store.Config{
		Records: index.Records(), Blobs: index.Blobs(), Quarantine: index,
		Kinds: map[store.Kind]store.Codec{cache.PackageKind: packageCodec(ledgerLog)},
	})
	out.Problem, out.Lists, out.Left = index.Problem, index.Kept[cache.VersionsKind], index.Damaged
	out.Verified, err = kept.Rebuild(ctx, store.Check{Found: func(d store.Damage) {
		out.Damaged = append(out.Damaged, admin.DamageOf(d))
	}})
	if err == nil {
		out.Aside, err = index.Finish()
	}
	return out, errors.Join(err, kept.Close(ctx))
}
