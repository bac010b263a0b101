package proxy

import (
	"errors"
	"net/http"
	"strings"
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
	Module    modproxy.Address
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
		entry.Write(zap.Inline(&line{e, r, took}))
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

// addTo adds the fields of the log to f.
func (l *line) addTo(f fields) {
	known := func(name, value string) {
		if value != "" {
			f.AddString(name, loggable(value))
		}
	}
	known("kind", l.Kind)
	if l.Module != (modproxy.Address{}) {
		known("module", l.Module.String())
	}
	known("version", l.Version)
	known("platform", l.Platform)
	f.AddString("method", loggable(l.r.Method))
	f.AddString("path", loggable(l.r.URL.Path)) // never the query, which may be a secret
	f.AddInt64("status", int64(l.Status))
	f.AddInt64("bytes", l.Bytes)
	f.AddFloat64("seconds", l.took.Seconds())
	f.AddString("client", l.Client)
	f.AddString("user_agent", loggable(l.r.UserAgent()))
	known("principal", l.Principal)
	if len(l.Groups) > 0 {
		f.AddStrings("groups", l.Groups)
	}
	known("cache", l.Cache)
	if l.Err != nil {
		known("error", LogText(l.Err))
	}
}

// LogText returns the text of err for the log, with details that clients are not shown: why a token is refused, the addresses in a
// network error, and the file on a full disk.
func LogText(err error) string {
	text := err.Error()
	if refused, ok := errors.AsType[*auth.Refused](err); ok {
		text += ": " + refused.Why
	}
	if hidden, ok := errors.AsType[interface {
		error
		Inside() string
	}](err); ok {
		if inside := hidden.Inside(); !strings.Contains(text, inside) {
			text += " (" + inside + ")"
		}
	}
	return text
}

// loggable returns s, which a client may have written, without secrets and no longer than maxLogged.
func loggable(s string) string {
	if hidesToken(s) {
		return "[redacted]"
	}
	s = auth.Redact(s)
	return s[:min(len(s), maxLogged)]
}
