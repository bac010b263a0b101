package modproxy

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
)

// contextKey is the key of a value of type T in a context. A context has at most one value of each type.
type contextKey[T any] struct{}

func with[T any](ctx context.Context, value T) context.Context {
	return context.WithValue(ctx, contextKey[T]{}, value)
}

// of returns the T of a context, or the zero T.
func of[T any](ctx context.Context) T {
	value, _ := ctx.Value(contextKey[T]{}).(T)
	return value
}

// Client identifies the client of a request. The zero Client is an unknown client.
type Client struct {
	Name        string   // unique among clients
	DisplayName string   // for people: the client's name for itself, or its address
	Groups      []string // policy rules refer to these groups; must not be changed
	Program     string   // the program that the client claims to be in its User-Agent header; not verified
}

// WithClient returns a context for requests of a client. Layers with a limited number of slots share them between clients by
// Name.
func WithClient(ctx context.Context, a Client) context.Context { return with(ctx, a) }

// ClientOf returns the client of the request, or the zero Client if ctx has no client.
func ClientOf(ctx context.Context) Client { return of[Client](ctx) }

// dateOf is the version whose publication date a request needs. needsDates marks a request that waits for dates.
type (
	dateOf     string
	needsDates bool
)

// WithDateOf returns a context for a request about one version. If its publication date is not known, it is requested before
// the dates of other versions.
func WithDateOf(ctx context.Context, version string) context.Context {
	return with(ctx, dateOf(version))
}

// DateOf returns the argument of WithDateOf, or an empty string.
func DateOf(ctx context.Context) string { return string(of[dateOf](ctx)) }

// WithDates returns a context for requests of an operator. Layers request unknown publication dates at once and wait for
// them.
func WithDates(ctx context.Context) context.Context { return with(ctx, needsDates(true)) }

// NeedsDates reports whether ctx descends from a context that WithDates returned.
func NeedsDates(ctx context.Context) bool { return bool(of[needsDates](ctx)) }

// background marks a request that no client waits for. The mark ends when a client waits.
type background struct {
	forward chan struct{} // closed when a client waits
	once    sync.Once
}

// InBackground returns a context for a request that no client waits for. Layers with a limited number of slots serve requests
// of waiting clients first. The mark does not affect other contexts that descend from ctx.
func InBackground(ctx context.Context) context.Context {
	return with(ctx, &background{forward: make(chan struct{})})
}

// IsBackground reports whether ctx descends from a context that InBackground returned, and BringForward was not called for
// it.
func IsBackground(ctx context.Context) bool {
	select {
	case <-BroughtForward(ctx):
		return false
	default:
		return true
	}
}

// BringForward records that a client now waits for the request of ctx. It has no effect outside the background.
func BringForward(ctx context.Context) {
	if b := of[*background](ctx); b != nil {
		b.once.Do(func() { close(b.forward) })
	}
}

// BroughtForward returns a channel that is closed when ctx is not in the background.
func BroughtForward(ctx context.Context) <-chan struct{} {
	if b := of[*background](ctx); b != nil {
		return b.forward
	}
	return inForeground
}

var inForeground = func() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}()

// LastError holds the last error of a request in progress. It is safe for concurrent use.
type LastError struct{ last atomic.Pointer[error] }

// WithLastError returns a context for a request whose errors [ReportError] stores in t.
func WithLastError(ctx context.Context, t *LastError) context.Context { return with(ctx, t) }

// ReportError stores err for the callers that wait for the request of ctx. The request is still in progress.
func ReportError(ctx context.Context, err error) {
	if t := of[*LastError](ctx); t != nil {
		t.last.Store(&err)
	}
}

// Get returns the last error, or nil.
func (t *LastError) Get() error {
	if err := t.last.Load(); err != nil {
		return *err
	}
	return nil
}

// mayArrive marks a request that accepts a package whose download is in progress.
type mayArrive bool

// AllowPartial returns a context for a request that accepts a package whose download is in progress: see [Partial].
func AllowPartial(ctx context.Context) context.Context { return with(ctx, mayArrive(true)) }

// AllowsPartial reports whether ctx descends from a context that AllowPartial returned.
func AllowsPartial(ctx context.Context) bool { return bool(of[mayArrive](ctx)) }

// Meter counts the received bytes of a package during its download. It is safe for concurrent use.
type Meter struct {
	received  atomic.Int64
	receiving atomic.Int64
}

// WithMeter returns a context for the download of one package. m counts its bytes.
func WithMeter(ctx context.Context, m *Meter) context.Context { return with(ctx, m) }

// MeterOf returns the meter of a context, or a new one if the context has no meter.
func MeterOf(ctx context.Context) *Meter { return cmp.Or(of[*Meter](ctx), &Meter{}) }

// Begin records that the download waits for bytes. The caller must call end when it no longer waits.
func (m *Meter) Begin() (end func()) {
	m.receiving.Add(1)
	return func() { m.receiving.Add(-1) }
}

// Add adds n received bytes.
func (m *Meter) Add(n int64) { m.received.Add(n) }

// Received returns the number of received bytes, and whether the download waits for more.
func (m *Meter) Received() (bytes int64, receiving bool) {
	return m.received.Load(), m.receiving.Load() > 0
}
