package app

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// observe measures and logs what goes on behind the requests.
func (s *App) observe(e cache.Event) {
	level := zapcore.InfoLevel
	switch e.Kind {
	case cache.VersionsAsked:
		s.metrics.Asked("versions", e.Err)
	case cache.LocationAsked:
		s.metrics.Asked("location", e.Err)
	case cache.FetchStarted:
		s.metrics.FetchStarted()
		level = zapcore.DebugLevel
	case cache.FetchEnded:
		s.metrics.FetchEnded(e.Duration, e.Bytes, e.Err)
		s.Store.Doubt(e.Err) // packages are packed in the data directory, too
	case cache.StaleServed:
		s.metrics.StaleServed()
		return // the request's own entry says so
	case cache.BlobDamaged:
		s.metrics.Damaged()
		level = zapcore.ErrorLevel
	case cache.Evicted:
		s.metrics.Evicted(e.Bytes)
	case cache.IndexFailed:
		level = zapcore.ErrorLevel
	case cache.VersionDropped:
		level = zapcore.WarnLevel
	}
	if e.Err != nil {
		level = max(level, zapcore.WarnLevel)
	}
	entry := s.log.Check(level, string(e.Kind))
	if entry == nil {
		return
	}
	fields := make([]zap.Field, 0, 6)
	if e.Module != (modproxy.Module{}) {
		fields = append(fields, zap.Stringer("module", e.Module))
	}
	if e.Version != "" {
		fields = append(fields, zap.String("version", e.Version))
	}
	if !e.Digest.IsZero() {
		fields = append(fields, zap.Stringer("digest", e.Digest))
	}
	if e.Duration > 0 {
		fields = append(fields, zap.Float64("seconds", e.Duration.Seconds()))
	}
	if e.Bytes > 0 {
		fields = append(fields, zap.Int64("bytes", e.Bytes))
	}
	if e.Err != nil {
		fields = append(fields, zap.String("error", e.Err.Error()))
	}
	entry.Write(fields...)
}
