package httpx

import (
	"errors"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// An Event is the record of one request, for the log and the metrics. Empty fields are not logged.
type Event struct {
	Time      time.Time // when the request began
	Kind      string    // of the request: a protocol.Kind, discovery, health, home, metrics, or the kind of a Mount
	Module    modproxy.Address
	Version   string
	Platform  string // of a provider, as in linux_amd64
	Status    int
	Bytes     int64    // of the body
	Cache     string   // as in Cache-Status
	Client    string   // the address that the request came from
	Principal string   // of an identified client
	Groups    []string // of the principal, by an issuer
	Err       error    // may have details that clients do not receive
}

// maxLogged is the longest path, user agent or error in the log, in bytes.
const maxLogged = 500

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
	f.AddString("path", loggable(l.r.URL.Path)) // without the query, which may be a secret
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

// LogText returns the text of err for the log, with details that clients do not receive: why a token is refused, the addresses in
// a network error, and the file on a full disk.
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

// loggable returns s, text of a client, without secrets and no longer than maxLogged.
func loggable(s string) string {
	if hidesToken(s) {
		return "[redacted]"
	}
	s = auth.Redact(s)
	return s[:min(len(s), maxLogged)]
}
