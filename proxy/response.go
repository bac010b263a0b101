package proxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// A client must take pieceSize bytes in pieceTime, or it is cut off: others wait for its turn.
const (
	pieceSize = 64 << 10
	pieceTime = 60 * time.Second
)

var errSlow = errors.New("the client took its answer too slowly, and was cut off")

// Holder is a connection that can hold back the beginning of what is written to it until more comes, or Release, so that both
// leave together. It is used by the goroutine that writes.
type Holder interface {
	Hold()
	Release() error
}

type holderKey struct{}

// WithHolder returns the context of the requests of a connection.
func WithHolder(ctx context.Context, h Holder) context.Context {
	return context.WithValue(ctx, holderKey{}, h)
}

// HolderOf returns the connection of a request, if it is one.
func HolderOf(ctx context.Context) (h Holder, ok bool) {
	h, ok = ctx.Value(holderKey{}).(Holder)
	return h, ok
}

// maxBuffered is less than what net/http writes at once, the header and the beginning of an answer, if it is not held.
const maxBuffered = 3 << 10

// response counts what is written, and writes it in pieces of pieceSize, each with a deadline of its own.
type response struct {
	http.ResponseWriter
	ctx     context.Context
	control http.ResponseController
	limit   time.Duration // for each piece; 0 for none
	status  int
	bytes   int64
	turn    int64 // bytes since others had theirs
	begun   bool  // something large was written
	failed  error // by which writing to the client ended

	values [4]string // of headers that have one
	used   int       // of values

	mu   sync.Mutex // guards the deadline and what follows
	done bool       // the handler has ended
	why  error      // the client was cut off because of this
}

// value returns the only value of a header.
func (w *response) value(value string) []string {
	if w.used == len(w.values) {
		return []string{value}
	}
	w.used++
	one := w.values[w.used-1 : w.used : w.used]
	one[0] = value
	return one
}

// extend gives the client time for what is written next, also after the handler, or returns why it was cut off. The
// deadline stays with the connection, so every request sets its own.
func (w *response) extend() error {
	var deadline time.Time
	if w.limit > 0 {
		deadline = time.Now().Add(w.limit)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why == nil {
		_ = w.control.SetWriteDeadline(deadline) // a test's writer has none
	}
	return w.why
}

// giveTurn lets other requests run before more is written to a client that has taken a piece. Writing to one that takes all at
// once never waits, and would keep the processor for a whole time slice.
func (w *response) giveTurn() {
	if w.turn >= pieceSize {
		w.turn = 0
		runtime.Gosched()
	}
}

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(p []byte) (written int, err error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	for piece := range slices.Chunk(p, pieceSize) {
		n := 0
		w.giveTurn()
		if err = w.extend(); err == nil {
			n, err = w.writePiece(piece)
		}
		w.turn += int64(n)
		if written += n; err != nil {
			break
		}
	}
	w.bytes += int64(written)
	w.failed = cmp.Or(err, w.failed)
	return written, err
}

// writePiece writes the first piece together with the header.
func (w *response) writePiece(p []byte) (int, error) {
	if w.begun || len(p) < maxBuffered {
		return w.ResponseWriter.Write(p)
	}
	w.begun = true
	h, ok := HolderOf(w.ctx)
	if !ok {
		return w.ResponseWriter.Write(p)
	}
	h.Hold()
	n, err := w.ResponseWriter.Write(p)
	return n, cmp.Or(err, h.Release())
}

// ReadFrom implements [io.ReaderFrom]: the system sends what is a [io.LimitedReader] of a file, also of one that a
// [modproxy.Sender] has, unless TLS or an old client is in the way.
func (w *response) ReadFrom(r io.Reader) (written int64, err error) {
	part, _ := r.(*io.LimitedReader)
	if part == nil {
		return io.Copy(struct{ io.Writer }{w}, r)
	}
	if from, ok := part.R.(modproxy.Sender); ok {
		written, err = from.SendTo(w, part.N)
		part.N -= written
		return written, err
	}
	to, ok := w.ResponseWriter.(io.ReaderFrom)
	if _, isFile := part.R.(syscall.Conn); !ok || !isFile {
		return io.Copy(struct{ io.Writer }{w}, r)
	}
	if w.status == 0 {
		w.status = http.StatusOK
	}
	for err == nil && part.N > 0 {
		piece := io.LimitedReader{R: part.R, N: min(part.N, pieceSize)}
		var n int64
		w.giveTurn()
		if err = w.extend(); err == nil {
			n, err = to.ReadFrom(&piece)
		}
		w.turn += n
		part.N -= n
		if written += n; n == 0 {
			break
		}
	}
	w.bytes += written
	if !errors.Is(err, syscall.EIO) { // which is the file's
		w.failed = cmp.Or(err, w.failed)
	}
	return written, err
}

// Unwrap is for [http.ResponseController].
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// recheckTime is how often the principal of a long request is checked. The request ends within five seconds.
const recheckTime = time.Second

// whileIdentified returns a context that ends, with the cause, when the token of the principal of ctx is revoked or has
// expired. A path that was signed for an issuer's token stays good for a request that has begun. stop comes last.
func (h *Handler) whileIdentified(ctx context.Context, segment string) (_ context.Context, stop func()) {
	p := auth.PrincipalOf(ctx)
	if h.cfg.Auth == nil || p.Kind == auth.ByIssuer && segment != "" {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stopAsking := every(ctx, recheckTime, func() {
		if err := h.cfg.Auth.Still(p, time.Now()); err != nil {
			cancel(err)
		}
	})
	return ctx, func() {
		cancel(nil)
		stopAsking()
	}
}

// every calls f once in each d until ctx ends. Then stop leaves nothing behind but a call that has begun.
func every(ctx context.Context, d time.Duration, f func()) (stop func() bool) {
	var timer *time.Timer
	timer = time.AfterFunc(time.Hour, func() { // from the Reset below on, when timer is set
		f()
		if timer.Reset(d); ctx.Err() != nil {
			timer.Stop() // stop may have come before the Reset
		}
	})
	timer.Reset(d)
	return timer.Stop
}

// endOf returns why the proxy ends the request with ctx. It returns nil if the request goes on, or the client has gone.
func endOf(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return cause
	}
	return nil
}

// cutWhenEnded cuts the client off when ctx ends because of its principal, until the handler ends and calls stop.
func (w *response) cutWhenEnded(ctx context.Context) (stop func()) {
	unregister := context.AfterFunc(ctx, func() {
		why := endOf(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		if why != nil && why != ErrShuttingDown && !w.done { // of which clients that wait are told
			w.why = why
			_ = w.control.SetWriteDeadline(time.Unix(1, 0)) // a test's writer has none
		}
	})
	return func() {
		unregister()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.done = true
	}
}
