package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/proxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/tfconfig"
)

// parts are the components of the layers. They are complete before online or offline creates a layer. A part without a task, such
// as missing in an online proxy, exists and does nothing. Verbs that only inspect the data directory open some of the parts.
type parts struct {
	config  *config.Config
	options Options
	metrics *proxy.Metrics
	log     *zap.Logger
	flush   func() // of the log

	data
	gate      *policy.Gate
	firstSeen *history.FirstSeen
	pending   *history.Demand // versions that wait for approval
	missing   *history.Demand // requested offline and not cached
	counts    *history.Downloads
	auth      *auth.Authenticator // of clients; nil if clients show no credential
	operators *auth.Authenticator // of the operator's API, if auth is nil

	closers closers
}

// data is an opened data directory.
type data struct {
	disk   *disk.Directory
	Store  *store.Store
	Ledger *ledger.Log
	damage error // why the ledger is not open although it exists; verbs for packages only
	reader *tfconfig.Reader
}

// closers close the opened parts in reverse order. All of them have the same deadline.
type closers []func(soon context.Context) error

func (c *closers) add(f func(soon context.Context) error) { *c = append(*c, f) }

func (c closers) close(soon context.Context) error {
	var errs []error
	for _, f := range slices.Backward(c) {
		errs = append(errs, f(soon))
	}
	return errors.Join(errs...)
}

// open opens the data directory, completes the parts, and stacks the layers.
func (a *App) open(ctx context.Context, listening net.Addr) error {
	if err := a.openData(ctx); err != nil {
		return err
	}
	if err := a.checkOwn(ctx); err != nil {
		return err
	}
	if err := a.ReadOnly(); err != nil {
		logEvent(a.log, "data_read_only", err)
	} else if err := emptyScratch(a.scratch()); err != nil {
		return err
	}
	a.gate = policy.NewGate(a.Ledger, nil)
	if a.config.Offline {
		if err := a.openParts(ctx, nil, nil); err != nil {
			return err
		}
		a.layers = offline(&a.parts)
	} else {
		out, err := a.openOutgoing(ctx, listening)
		if err != nil {
			return err
		}
		if err := a.openParts(ctx, a.datesOf(out), out.egress); err != nil {
			return err
		}
		a.layers = online(&a.parts, out)
	}
	a.closers.add(a.layers.close)
	a.Store.EvictLast = a.Cache.Withdrawn // the store evicts nothing before Start
	a.metrics.MeasureStorage(a.Store, int64(a.config.Cache.MaxSize))
	a.Store.Start()
	return nil
}

// openParts opens what open has not opened yet. dates and network may be nil.
func (a *App) openParts(ctx context.Context, dates history.Dates, network *egress.Client) error {
	a.counts = history.NewDownloads(a.Store.Records, a.observeDownloads)
	if err := a.openGate(ctx, dates); err != nil {
		return err
	}
	return a.openAuth(ctx, network)
}

// scratch returns the directory for downloads, and for packages that are being packed or verified.
func (p *parts) scratch() string { return Absolute(filepath.Join(p.config.Data, "scratch")) }

// limits returns the limits of one package.
func (p *parts) limits() pack.Limits {
	f := p.config.Fetch
	return pack.Limits{Entries: f.MaxFiles, Bytes: int64(f.MaxUnpacked), Packed: int64(f.MaxUnpacked), StrictNames: f.StrictNames}
}

// emptyScratch creates the directory for downloads, and removes the files that a killed process left in it. An existing directory
// stays: on a full disk it may be impossible to create another one.
func emptyScratch(scratch string) error {
	if info, err := os.Lstat(scratch); err != nil || !info.IsDir() {
		return errors.Join(os.RemoveAll(scratch), os.Mkdir(scratch, 0o700))
	}
	root, err := os.OpenRoot(filepath.Dir(scratch)) // links in scratch do not lead out of it
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := os.ReadDir(scratch)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := root.RemoveAll(filepath.Join(filepath.Base(scratch), entry.Name())); err != nil {
			return err
		}
	}
	return os.Chmod(scratch, 0o700)
}

// Absolute returns path for a program that runs in another directory.
func Absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// openData opens the ledger and the stored packages.
func (p *parts) openData(ctx context.Context) error {
	if err := p.openDisk(ctx, disk.Options{}); err != nil {
		return err
	}
	if err := p.openLedger(ctx); err != nil {
		return err
	}
	p.openStore(p.Ledger)
	return nil
}

// openDisk opens the directory. On a read-only file system, it opens it for reading.
func (p *parts) openDisk(ctx context.Context, o disk.Options) (err error) {
	p.disk, err = disk.OpenWith(ctx, p.config.Data, o)
	if errors.Is(err, syscall.EROFS) {
		o.ReadOnly = true
		p.disk, err = disk.OpenWith(ctx, p.config.Data, o)
	}
	if err == nil {
		p.closers.add(func(context.Context) error { return p.disk.Close() })
	}
	return err
}

// openLedger opens the ledger. A ledger that is lost beside stored packages is an error: a new ledger would unpin every version.
func (p *parts) openLedger(ctx context.Context) error {
	dir := p.config.LedgerDir()
	ledgerLog, err := ledger.Open(dir)
	if errors.Is(err, syscall.EROFS) {
		ledgerLog, err = ledger.OpenReadOnly(dir)
	}
	if err != nil {
		return err
	}
	p.useLedger(ledgerLog)
	if ledgerLog.HasRecords() {
		return nil
	}
	for _, err := range p.disk.Records().List(ctx, cache.PackageKind, "") {
		if err == nil || errors.Is(err, store.ErrDamaged) {
			err = hint.With(fmt.Errorf("%s: %w", dir, admin.ErrNoLedger), admin.NoLedgerHints...)
		}
		return err
	}
	return nil
}

func (p *parts) useLedger(ledgerLog *ledger.Log) {
	p.Ledger = ledgerLog
	p.closers.add(func(context.Context) error { return ledgerLog.Close() })
}

// openStore opens the store in the directory. ledgerLog verifies and rebuilds the records of packages; it may be nil.
func (p *parts) openStore(ledgerLog *ledger.Log) {
	c := p.config
	pinned := pins(c.Cache.Pinned)
	if c.Offline { // nothing would bring back what was evicted
		pinned = pins{auth.Everything}
	}
	p.Store = store.New(store.Config{
		Records: p.disk.Records(), Blobs: p.disk.Blobs(), Quarantine: p.disk,
		Kinds: map[store.Kind]store.Codec{
			cache.VersionsKind: nil, cache.DetailsKind: nil, cache.HistoryKind: nil, cache.TextKind: nil, cache.NumbersKind: nil,
			cache.PackageKind: packageCodec(ledgerLog), history.FirstSeenKind: nil, history.PendingKind: nil, history.MissingKind: nil,
			history.DownloadsKind: nil, history.ProgramsKind: nil, tfconfig.ConfigurationKind: nil, tfconfig.DescriptionKind: nil,
		},
		Pins: pinned, MaxSize: int64(c.Cache.MaxSize), Memory: int64(c.Cache.Memory), Observe: p.observeStore,
	})
	p.closers.add(func(context.Context) error {
		end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return p.Store.Close(end)
	})
	p.reader = tfconfig.NewReader(p.Store, int64(c.Cache.MaxVersions))
}

// pins implements [store.Pins]: packages of modules in the scopes are not evicted.
type pins auth.Scopes

// Pinned implements [store.Pins].
func (p pins) Pinned(ref store.Ref) bool {
	v, ok := cache.VersionOf(ref)
	return ok && len(p) > 0 && auth.Scopes(p).Covers(v.Address)
}

// anyLimits are far above the limits of downloads, which may have been lowered since a package was stored.
var anyLimits = pack.Limits{Entries: 10_000_000, Bytes: 1 << 42, Packed: 1 << 42}

// packageCodec returns the codec that verifies and rebuilds the records of packages in the store. ledgerLog may be nil: then packages are
// not compared with a ledger.
func packageCodec(ledgerLog *ledger.Log) *cache.PackageCodec {
	k := &cache.PackageCodec{Sum: func(r io.Reader) (modproxy.Sum, error) { return pack.Verify(r, anyLimits) }}
	if ledgerLog != nil {
		k.Ledger = ledgerLog
	}
	return k
}
