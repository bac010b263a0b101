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
	Kind      string // of a question, or discovery, health, home, metrics, or of a Mount; may be empty
	Module    modproxy.Module
	Version   string
	Platform  string // of a provider, as in linux_amd64
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
		entry.Write(zap.Inline(zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error { return e.addTo(enc, r, took) })))
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

// addTo adds the fields of the log to enc.
func (e *Event) addTo(enc zapcore.ObjectEncoder, r *http.Request, took time.Duration) error {
	known := func(field, value string) {
		if value != "" {
			enc.AddString(field, loggable(value))
		}
	}
	known("kind", e.Kind)
	if e.Module != (modproxy.Module{}) {
		known("module", e.Module.String())
	}
	known("version", e.Version)
	known("platform", e.Platform)
	enc.AddString("method", loggable(r.Method))
	enc.AddString("path", loggable(r.URL.Path)) // never the query, which may be a secret
	enc.AddInt("status", e.Status)
	enc.AddInt64("bytes", e.Bytes)
	enc.AddFloat64("seconds", took.Seconds())
	enc.AddString("client", e.Client)
	enc.AddString("user_agent", loggable(r.UserAgent()))
	known("principal", e.Principal)
	if len(e.Groups) > 0 {
		zap.Strings("groups", e.Groups).AddTo(enc)
	}
	known("cache", e.Cache)
	if e.Err != nil {
		why := e.Err.Error()
		if refused := (*auth.Refused)(nil); errors.As(e.Err, &refused) {
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
