package app

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/store"
)

// observe measures and logs what goes on behind the requests.
func (a *App) observe(e cache.Event) {
	level := zapcore.InfoLevel
	switch e.Kind {
	case cache.VersionsAsked:
		a.metrics.Asked("versions", e.Err)
	case cache.LocationAsked:
		a.metrics.Asked("location", e.Err)
	case cache.FetchStarted:
		a.metrics.FetchStarted()
		level = zapcore.DebugLevel
	case cache.FetchEnded:
		a.metrics.FetchEnded(e.Duration, e.Bytes, e.Err)
		a.disk.Doubt(e.Err) // packages are packed in the data directory, too
	case cache.StaleServed:
		a.metrics.StaleServed()
		return // the request's own entry says so
	case cache.StoreFailed:
		level = zapcore.ErrorLevel
	case cache.VersionDropped, cache.LedgerBehind, cache.LedgerDisagrees:
		level = zapcore.WarnLevel
	}
	fields := make([]zap.Field, 0, 6)
	if e.Module != (modproxy.Module{}) {
		fields = append(fields, zap.Stringer("module", e.Module))
	}
	if e.Version != "" {
		fields = append(fields, zap.String("version", e.Version))
	}
	if e.Duration > 0 {
		fields = append(fields, zap.Float64("seconds", e.Duration.Seconds()))
	}
	a.observed(level, string(e.Kind), e.Bytes, e.Err, fields)
}

// observeStore measures and logs what happens to what is kept. Of several versions with
// the same content it names one.
func (a *App) observeStore(e store.Event) {
	level := zapcore.ErrorLevel
	switch e.Kind {
	case store.BlobDamaged:
		a.metrics.Damaged()
	case store.BlobEvicted:
		a.metrics.Evicted(e.Bytes)
		level = zapcore.InfoLevel
	}
	var fields []zap.Field
	for _, ref := range e.Refs {
		if v, ok := cache.VersionOf(ref); ok {
			fields = append(fields, zap.Stringer("module", v.Module), zap.String("version", v.Version))
			break
		}
	}
	if !e.Digest.IsZero() {
		fields = append(fields, zap.Stringer("digest", e.Digest))
	}
	a.observed(level, string(e.Kind), e.Bytes, e.Err, fields)
}

// observed logs an event.
func (a *App) observed(level zapcore.Level, kind string, bytes int64, err error, fields []zap.Field) {
	if err != nil {
		level = max(level, zapcore.WarnLevel)
	}
	entry := a.log.Check(level, kind)
	if entry == nil {
		return
	}
	if bytes > 0 {
		fields = append(fields, zap.Int64("bytes", bytes))
	}
	if err != nil {
		fields = append(fields, zap.String("error", err.Error()))
	}
	entry.Write(fields...)
}

// observeLedger measures and logs what the ledger's layer and its recheck tell.
func (a *App) observeLedger(e ledger.Event) {
	var fields []zap.Field
	if e.ModuleVersion != (modproxy.ModuleVersion{}) {
		fields = append(fields, zap.Stringer("module", e.Module), zap.String("version", e.Version))
	}
	switch e.Kind {
	case ledger.Recorded:
		a.log.Info("ledger_recorded", append(fields, zap.String("sum", string(e.Record.Sum)),
			zap.String("source", e.Record.Source.URL), zap.String("commit", e.Record.Source.Commit))...)
	case ledger.Drifted:
		a.log.Error("ledger_drifted", append(fields, zap.String("recorded", string(e.Drift.Recorded)), zap.String("offered", string(e.Drift.Offered)),
			zap.String("source", e.Drift.Source.URL), zap.String("commit", e.Drift.Source.Commit))...)
	case ledger.Unasked:
		a.log.Info("ledger_recheck", append(fields, zap.Error(e.Err))...)
		return
	case ledger.Moved:
		a.log.Warn("ledger_recheck", append(fields, zap.String("recorded", e.Record.Source.Commit), zap.String("commit", e.Commit), zap.Error(e.Err))...)
		return
	default:
		a.log.Error("ledger_"+string(e.Kind), append(fields, zap.Error(e.Err))...)
	}
	a.metrics.Ledger(string(e.Kind))
}

func (a *App) observeIssuer(issuer string, err error) {
	if err != nil {
		a.log.Warn("the keys of an issuer cannot be fetched", zap.String("issuer", issuer), zap.Error(err))
		return
	}
	a.log.Debug("the keys of an issuer were fetched", zap.String("issuer", issuer))
}

func (a *App) logStarted() {
	a.log.Info("started",
		zap.String("version", a.options.Version), zap.String("listen", a.url), zap.String("data", a.config.Data),
		zap.String("config", a.options.ConfigFile), zap.Bool("offline", a.config.Offline), zap.Bool("auth", a.config.RequiresToken()))
}
