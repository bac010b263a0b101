package proxy

import (
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// Event is all that is recorded of one request.
type Event struct {
	Time      time.Time
	Kind      string // versions, download, package, provider, discovery, health, home, metrics, or of a Mount; may be empty
	Module    modproxy.Module
	Version   string
	Status    int
	Bytes     int64
	Cache     string   // as in Cache-Status
	Client    string   // the address that the request came from, as far as that is known
	Principal string   // empty if the client was not identified
	Groups    []string // of the principal, by an issuer
	Err       error
}

// maxLogged is the longest path, user agent or error in the log, in bytes.
const maxLogged = 500

// record measures and logs the request.
func (h *Handler) record(r *http.Request, e *Event) {
	took := time.Since(e.Time)
	h.cfg.Metrics.request(e, took)
	if entry := h.cfg.Log.Check(e.level(), "request"); entry != nil {
		entry.Write(zap.Inline(logEntry{e, r, took}))
	}
}

func (e *Event) level() zapcore.Level {
	switch {
	case e.Kind == "health" && e.Err == nil:
		return zapcore.DebugLevel
	case e.Kind != "health" && e.Status >= 500:
		return zapcore.ErrorLevel
	case e.Err != nil:
		return zapcore.WarnLevel
	}
	return zapcore.InfoLevel
}

// logEntry is what the log has of a request.
type logEntry struct {
	*Event
	request *http.Request
	took    time.Duration
}

// MarshalLogObject adds the fields of the log to enc.
func (l logEntry) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	known := func(field, value string) {
		if value != "" {
			enc.AddString(field, loggable(value))
		}
	}
	known("kind", l.Kind)
	if l.Module != (modproxy.Module{}) {
		known("module", l.Module.String())
	}
	known("version", l.Version)
	enc.AddString("method", loggable(l.request.Method))
	enc.AddString("path", loggable(l.request.URL.Path)) // never the query, which may be a secret
	enc.AddInt("status", l.Status)
	enc.AddInt64("bytes", l.Bytes)
	enc.AddFloat64("seconds", l.took.Seconds())
	enc.AddString("client", l.Client)
	enc.AddString("user_agent", loggable(l.request.UserAgent()))
	known("principal", l.Principal)
	if len(l.Groups) > 0 {
		zap.Strings("groups", l.Groups).AddTo(enc)
	}
	known("cache", l.Cache)
	if l.Err != nil {
		why := l.Err.Error()
		if refused := (*auth.Refused)(nil); errors.As(l.Err, &refused) {
			why += ": " + refused.Why
		}
		known("error", why)
	}
	return nil
}

// loggable returns s, which a client may have written, without secrets and no longer than maxLogged.
func loggable(s string) string {
	s = auth.Redact(s)
	return s[:min(len(s), maxLogged)]
}
