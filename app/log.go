package app

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/store"
)

// errorField returns the log field for an error, including the part that clients do not receive. For nil it returns no field.
func errorField(err error) zap.Field {
	if err == nil {
		return zap.Skip()
	}
	return zap.String("error", httpx.LogText(err))
}

// Nested implements [nested.Observer].
func (p *parts) Nested(v modproxy.Ref, sources int, left []string) {
	if sources+len(left) > 0 {
		p.logVersion("nested", false, v, nil, zap.Int("sources", sources), unless(len(left) == 0, zap.Strings("left", left)))
	}
}

// isReadOnly reports whether the only reason of err is that the data directory has been read-only since the start. The start has
// logged that.
func (p *parts) isReadOnly(err error) bool {
	return p.disk.ReadOnly() != nil && errors.Is(err, syscall.EROFS)
}

// unless returns f, or a field that is not logged if zero is true.
func unless(zero bool, f zap.Field) zap.Field {
	if zero {
		return zap.Skip()
	}
	return f
}

// observe counts and logs events of the cache.
func (p *parts) observe(e cache.Event) {
	switch e.Kind {
	case cache.VersionsAsked:
		p.metrics.Asked("versions", e.Err)
	case cache.LocationAsked:
		p.metrics.Asked("location", e.Err)
	case cache.DetailsAsked, cache.HistoryAsked, cache.DownloadsAsked, cache.ListAsked:
		p.metrics.Asked(strings.TrimSuffix(string(e.Kind), "_asked"), e.Err)
	case cache.FetchStarted:
		p.metrics.FetchStarted()
	case cache.FetchEnded:
		p.metrics.FetchEnded(e.Duration, e.Bytes, e.Err)
		p.disk.Doubt(e.Err) // the disk may be full: packages are packed in the data directory
	case cache.StaleServed:
		p.metrics.StaleServed()
		return // the log entry of the request has it
	case cache.StoreFailed:
		if p.isReadOnly(e.Err) {
			return
		}
		p.metrics.StorageFailed(string(e.Kind))
	case cache.VersionDropped, cache.VersionListed, cache.VersionsTrimmed, cache.CatalogTrimmed, cache.LedgerDisagrees, cache.LedgerBehind:
	}
	p.logVersion(string(e.Kind), e.Err != nil, e.Module.At(e.Version), e.Err,
		unless(e.Duration == 0, zap.Float64("seconds", e.Duration.Seconds())), unless(e.Bytes == 0, zap.Int64("bytes", e.Bytes)))
}

// ObserveCache implements [cache.Observer].
func (p *parts) ObserveCache(e cache.Event) { p.observe(e) }

// observeStore counts and logs events of the store. If several versions have the same content, the log entry names one of them.
func (p *parts) observeStore(e store.Event) {
	switch e.Kind {
	case store.BlobDamaged:
		p.metrics.Damaged()
	case store.BlobEvicted:
		p.metrics.Evicted(e.Bytes)
	case store.StorageFailed:
		p.metrics.StorageFailed(string(e.Kind))
	case store.Unrecorded, store.Missing:
	}
	var v modproxy.Ref
	for _, ref := range e.Refs {
		if found, ok := cache.VersionOf(ref); ok {
			v = found
			break
		}
	}
	p.logVersion(string(e.Kind), e.Err != nil, v, e.Err,
		unless(e.Digest.IsZero(), zap.Stringer("digest", e.Digest)), unless(e.Bytes == 0, zap.Int64("bytes", e.Bytes)),
		unless(e.Count == 0, zap.Int("packages", e.Count)),
		unless(e.Kind != store.Unrecorded, zap.String("note", `they are not served: "modproxy verify --read-data --repair" creates their records, "modproxy gc" removes them`)),
		unless(e.Kind != store.Missing, zap.String("note", `they are downloaded again when clients request them, unless modproxy is offline: "modproxy verify" lists them, with --repair it removes their records`)))
}

// observeLedger counts and logs events of the ledger's layer and of its recheck.
func (p *parts) observeLedger(e ledger.Event) {
	record, drift := e.Record, e.Drift
	var fields []zap.Field
	switch e.Kind {
	case ledger.Recorded:
		fields = append([]zap.Field{zap.String("sum", string(record.Sum))}, sourceFields(record.Source)...)
	case ledger.Renewed:
		fields = []zap.Field{zap.String("sum", string(record.Sum)), zap.String("reason", record.Reason)}
	case ledger.Drifted:
		fields = append([]zap.Field{zap.String("recorded", string(drift.Recorded)), zap.String("offered", string(drift.Offered))},
			sourceFields(drift.Source)...)
	case ledger.Moved:
		fields = []zap.Field{zap.String("recorded", record.Source.Commit), zap.String("commit", e.Commit)}
	case ledger.Failed, ledger.Unasked:
	}
	switch e.Kind {
	case ledger.Moved:
		p.logVersion("ledger_recheck", true, e.Ref, e.Err, fields...)
	case ledger.Unasked:
		p.logVersion("ledger_recheck", false, e.Ref, e.Err)
	case ledger.Recorded, ledger.Renewed, ledger.Drifted, ledger.Failed:
		p.metrics.Ledger(string(e.Kind))
		p.logVersion("ledger_"+string(e.Kind), e.Err != nil, e.Ref, e.Err, fields...)
	}
}

// sourceFields returns the log fields for the source of content. Without a commit or a mirror, it has no field for it.
func sourceFields(s modproxy.Source) []zap.Field {
	return []zap.Field{zap.String("source", s.URL), unless(s.Commit == "", zap.String("commit", s.Commit)), unless(s.Mirror == "", zap.String("mirror", s.Mirror))}
}

// observeIssuer logs a request for the keys of an issuer.
func (p *parts) observeIssuer(issuer string, err error) {
	logEvent(p.log, "issuer_asked", err, zap.String("issuer", issuer))
}

// newLog returns a JSON log that writes to w, and its level. The log is buffered, because a write for each request would cost more than most
// answers. flush writes the buffered entries and stops the buffering.
func newLog(w io.Writer, level string) (log *zap.Logger, least zap.AtomicLevel, flush func()) {
	least, _ = zap.ParseAtomicLevel(level) // the configuration has checked it
	encoder := zap.NewProductionEncoderConfig()
	encoder.TimeKey = "time"
	encoder.MessageKey = "message"
	encoder.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	out := &zapcore.BufferedWriteSyncer{WS: zapcore.AddSync(w), Size: 64 << 10, FlushInterval: 250 * time.Millisecond}
	log = zap.New(zapcore.NewCore(httpx.LogEncoder(encoder), out, least))
	return log, least, func() { out.Stop() }
}
