package app

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
)

// recheck asks upstream, again and again, whether versions are still at the commit
// that is recorded, so that a tag that was moved is known before a package has to be
// fetched again. It asks for one version after the other, evenly over Every. One
// that is at another commit is fetched through the ledger's layer, which keeps what
// it finds; the same content at another commit is nothing to tell.
type recheck struct {
	Every  time.Duration // for all versions; zero: never
	Ledger ledger.Ledger
	// Commit is where upstream says that a version is; empty if it cannot say.
	Commit func(ctx context.Context, m modproxy.Module, version string) (string, error)
	// Held is the ledger's layer over upstream.
	Held modproxy.Registry
	// Turn waits for a turn to fetch. Nil: there need be none.
	Turn func(ctx context.Context, m modproxy.Module) (give func(), err error)
	// FetchTimeout bounds one fetch.
	FetchTimeout time.Duration
	Log          *zap.Logger

	seen map[moduleVersion]string // the commit at which a version was found last, if another than is recorded
}

// moduleVersion is one version of one module.
type moduleVersion struct {
	modproxy.Module
	version string
}

// recheckTimeout bounds one question.
const recheckTimeout = time.Minute

// run goes on until ctx ends.
func (r *recheck) run(ctx context.Context) {
	if r.Every <= 0 {
		return
	}
	r.seen = map[moduleVersion]string{}
	for ctx.Err() == nil {
		versions := r.versions()
		pause := r.Every / time.Duration(len(versions)+1)
		if !sleep(ctx, pause) {
			return
		}
		for k, rec := range versions {
			r.look(ctx, k, rec)
			if !sleep(ctx, pause) {
				return
			}
		}
	}
}

// versions are those that have a commit, with the records that count.
func (r *recheck) versions() map[moduleVersion]ledger.Record {
	versions := map[moduleVersion]ledger.Record{}
	for rec, err := range r.Ledger.All() {
		if err != nil {
			r.Log.Error("ledger_recheck", zap.Error(err))
			break
		}
		k := moduleVersion{rec.Module, rec.Version}
		delete(versions, k)
		if rec.Source.Commit != "" {
			versions[k] = rec
		}
	}
	return versions
}

// look compares one version with its record.
func (r *recheck) look(ctx context.Context, k moduleVersion, rec ledger.Record) {
	asking, cancel := context.WithTimeout(ctx, recheckTimeout)
	defer cancel()
	commit, err := r.Commit(asking, k.Module, k.version)
	fields := []zap.Field{zap.Stringer("module", k.Module), zap.String("version", k.version)}
	switch {
	case err != nil:
		r.Log.Info("ledger_recheck", append(fields, zap.Error(err))...)
		return
	case commit == "", commit == rec.Source.Commit:
		delete(r.seen, k)
		return
	case commit == r.seen[k]:
		return // it was fetched, and told
	}
	if r.Turn != nil {
		give, err := r.Turn(ctx, k.Module)
		if err != nil {
			r.Log.Info("ledger_recheck", append(fields, zap.Error(err))...)
			return
		}
		defer give()
	}
	fetching, cancel := context.WithTimeout(ctx, r.FetchTimeout)
	defer cancel()
	p, err := r.Held.Package(fetching, k.Module.At(k.version))
	if err == nil {
		err = p.Close()
	}
	if ctx.Err() != nil {
		return
	}
	if !errors.Is(err, modproxy.ErrUnavailable) { // else it is not known what it has
		r.seen[k] = commit
	}
	fields = append(fields, zap.String("recorded", rec.Source.Commit), zap.String("commit", commit))
	if err != nil {
		fields = append(fields, zap.Error(err))
	}
	r.Log.Warn("ledger_recheck", fields...)
}

// sleep is false when ctx ends before d is over.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
