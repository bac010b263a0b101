package proxy

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// Event is all that is written down of one request.
type Event struct {
	Time      time.Time
	Kind      string // versions, download, package, provider, discovery, health, home; empty for none of these
	Module    modproxy.Module
	Version   string
	Status    int
	Bytes     int64
	Cache     string   // as in Cache-Status
	Client    string   // the address that it came from, as far as that is known
	Principal string   // who asked; empty where nobody is asked
	Groups    []string // of the issuer's that the principal is in
	Err       error
}

// The names of the log's fields.
const (
	fieldKind    = "kind"
	fieldModule  = "module"
	fieldVersion = "version"
	fieldMethod  = "method"
	fieldPath    = "path"
	fieldStatus  = "status"
	fieldBytes   = "bytes"
	fieldSeconds = "seconds"
	fieldCache   = "cache"
	fieldClient  = "client"
	fieldWho     = "principal"
	fieldGroups  = "groups"
	fieldAgent   = "user_agent"
	fieldError   = "error"
)

// The longest path, user agent and error in the log, in bytes.
const maxLogged = 500

// finish writes the request's log entry and measures it.
func (h *Handler) finish(r *http.Request, e *Event) {
	took := time.Since(e.Time)
	h.cfg.Metrics.request(e, took)
	level := zapcore.InfoLevel
	switch {
	case e.Kind == "health" && e.Err == nil:
		level = zapcore.DebugLevel
	case e.Kind == "health":
		level = zapcore.WarnLevel
	case e.Status >= 500:
		level = zapcore.ErrorLevel
	case e.Err != nil:
		level = zapcore.WarnLevel
	}
	entry := h.cfg.Log.Check(level, "request")
	if entry == nil {
		return
	}
	kept := entryFields.Get().(*[]zap.Field)
	fields := (*kept)[:0]
	if e.Kind != "" {
		fields = append(fields, zap.String(fieldKind, e.Kind))
	}
	if e.Module != (modproxy.Module{}) {
		fields = append(fields, zap.String(fieldModule, logged(e.Module.String())))
	}
	if e.Version != "" {
		fields = append(fields, zap.String(fieldVersion, logged(e.Version)))
	}
	fields = append(fields,
		zap.String(fieldMethod, logged(r.Method)),
		zap.String(fieldPath, logged(r.URL.Path)), // never the query: it is not ours, and may be a secret
		zap.Int(fieldStatus, e.Status),
		zap.Int64(fieldBytes, e.Bytes),
		zap.Float64(fieldSeconds, took.Seconds()),
		zap.String(fieldClient, e.Client),
		zap.String(fieldAgent, logged(r.UserAgent())),
	)
	if e.Principal != "" {
		fields = append(fields, zap.String(fieldWho, e.Principal))
	}
	if len(e.Groups) > 0 {
		fields = append(fields, zap.Strings(fieldGroups, e.Groups))
	}
	if e.Cache != "" {
		fields = append(fields, zap.String(fieldCache, e.Cache))
	}
	if e.Err != nil {
		why := e.Err.Error()
		if refused := (*auth.Refused)(nil); errors.As(e.Err, &refused) {
			why += ": " + refused.Why
		}
		fields = append(fields, zap.String(fieldError, logged(why)))
	}
	entry.Write(fields...)
	clear(fields) // they hold on to the request
	*kept = fields
	entryFields.Put(kept)
}

var entryFields = sync.Pool{New: func() any { return new([]zap.Field) }}

// logged is what the log has of s, in which something may be that a client wrote.
func logged(s string) string {
	s = auth.Redact(s)
	if len(s) > maxLogged {
		return s[:maxLogged]
	}
	return s
}
