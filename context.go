package modproxy

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
)

// contextKey is the key of a value of type T in a context, which has one at most.
type contextKey[T any] struct{}

func with[T any](ctx context.Context, value T) context.Context {
	return context.WithValue(ctx, contextKey[T]{}, value)
}

// of returns the T of a context, or the zero T.
func of[T any](ctx context.Context) T {
	value, _ := ctx.Value(contextKey[T]{}).(T)
	return value
}

// Asker is the client that asks. The zero Asker is not known.
type Asker struct {
	Name    string   // which no other client has
	Shown   string   // for people: the client's name for itself, or its address
	Groups  []string // whose rules hold for it; not changed
	Program string   // what it says it is, as in the header User-Agent; nobody has checked it
}

// WithAsker returns a context for the questions of a client. Layers that can do only so much at a time share their turns
// by its name.
func WithAsker(ctx context.Context, a Asker) context.Context { return with(ctx, a) }

// AskerOf returns the client that asks.
func AskerOf(ctx context.Context) Asker { return of[Asker](ctx) }

// dateOf is the version whose date a question needs, and needsDates the mark of one that waits for dates.
type (
	dateOf     string
	needsDates bool
)

// WithDateOf returns a context for a question about one version: if its date of publication is not known, it is requested
// before those of others.
func WithDateOf(ctx context.Context, version string) context.Context {
	return with(ctx, dateOf(version))
}

// DateOf returns the version of WithDateOf, or an empty string.
func DateOf(ctx context.Context) string { return string(of[dateOf](ctx)) }

// WithDates returns a context for an operator's questions: dates of publication that are not known are requested at once, and
// waited for.
func WithDates(ctx context.Context) context.Context { return with(ctx, needsDates(true)) }

// NeedsDates reports whether ctx is made of what WithDates returned.
func NeedsDates(ctx context.Context) bool { return bool(of[needsDates](ctx)) }

// background is the mark of a question that no client waits for, until one does.
type background struct {
	forward chan struct{} // closed when a client waits
	once    sync.Once
}

// InBackground returns a context for a question that no client waits for. Layers that can do only so much at a time do
// what clients wait for before it. The mark has no effect on others of the contexts that ctx is made of.
func InBackground(ctx context.Context) context.Context {
	return with(ctx, &background{forward: make(chan struct{})})
}

// IsBackground reports whether ctx is made of what InBackground returned, and was not brought forward.
func IsBackground(ctx context.Context) bool {
	select {
	case <-BroughtForward(ctx):
		return false
	default:
		return true
	}
}

// BringForward tells that a client now waits for the question of ctx, if it was in the background until then.
func BringForward(ctx context.Context) {
	if b := of[*background](ctx); b != nil {
		b.once.Do(func() { close(b.forward) })
	}
}

// BroughtForward returns a channel that is closed as soon as ctx is not in the background.
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

// Trouble is the last error of a question that goes on. It is safe for concurrent use.
type Trouble struct{ last atomic.Pointer[error] }

// WithTrouble returns a context for a question that [Troubled] tells t about.
func WithTrouble(ctx context.Context, t *Trouble) context.Context { return with(ctx, t) }

// Troubled tells the callers that wait for the question of ctx that err has happened, and that it goes on.
func Troubled(ctx context.Context, err error) {
	if t := of[*Trouble](ctx); t != nil {
		t.last.Store(&err)
	}
}

// Last returns the last error, or nil.
func (t *Trouble) Last() error {
	if err := t.last.Load(); err != nil {
		return *err
	}
	return nil
}

// mayArrive is set in the context of a question whose answer may be a package that still comes.
type mayArrive bool

// WithArrival returns a context for a question for a package that may be answered while it still comes, see [Arrival].
func WithArrival(ctx context.Context) context.Context { return with(ctx, mayArrive(true)) }

// MayArrive reports whether ctx is what WithArrival returns.
func MayArrive(ctx context.Context) bool { return bool(of[mayArrive](ctx)) }

// Meter counts the bytes that are received for a package, while they are.
type Meter struct {
	received  atomic.Int64
	receiving atomic.Int64
}

// WithMeter returns a context for the fetch of one package, which m counts.
func WithMeter(ctx context.Context, m *Meter) context.Context { return with(ctx, m) }

// MeterOf returns the meter of a context, or one that nobody reads.
func MeterOf(ctx context.Context) *Meter { return cmp.Or(of[*Meter](ctx), &Meter{}) }

// Begin tells that bytes are waited for, until end is called.
func (m *Meter) Begin() (end func()) {
	m.receiving.Add(1)
	return func() { m.receiving.Add(-1) }
}

// Add counts n bytes.
func (m *Meter) Add(n int64) { m.received.Add(n) }

// Received returns the bytes so far, and whether more are waited for.
func (m *Meter) Received() (bytes int64, receiving bool) {
	return m.received.Load(), m.receiving.Load() > 0
}
