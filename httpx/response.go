package httpx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/modproxy/modproxy"
)

// PieceTime is the time in which a client must take each piece of 64 KiB of its answer. A slower client is cut off, because other
// clients may wait for the slot of its request.
const PieceTime = 60 * time.Second

// pieceSize is the size of a piece, in bytes.
const pieceSize = 64 << 10

// ErrShuttingDown is the cause of the context of a request that ends because the proxy does. Clients that wait receive it.
var ErrShuttingDown = errors.New("modproxy is shutting down")

// ErrHandedOver is an [ErrShuttingDown]. Another process accepts the connections at the same address: a client that reads is redirected
// to the URL of its request.
var ErrHandedOver = fmt.Errorf("%w, and the next process answers", ErrShuttingDown)

var errSlow = errors.New("the client took its answer too slowly, and was cut off")

// maxBuffered is less than net/http's buffer, which it writes at once: the header and the beginning of an answer.
const maxBuffered = 3 << 10

// A Response counts the bytes of an answer, and writes it in pieces, each with a deadline of its own. Only the goroutine of its
// handler uses it.
type Response struct {
	http.ResponseWriter
	ctx     context.Context
	control http.ResponseController
	limit   time.Duration // for each piece; 0 for none
	status  int
	bytes   int64
	turn    int64 // bytes since other requests had their turn
	begun   bool  // a write was larger than maxBuffered
	failed  error // of the write to the client that failed

	requests  *Requests // that count this one
	onlySends bool      // as OnlySends says

	values [4]string // of headers that have one
	used   int       // of values

	mu   sync.Mutex // guards the deadline, done and why
	done bool       // the handler has ended
	why  error      // why the client was cut off
}

// Value returns a header with one value. It allocates only for the fifth and later headers of an answer.
func (w *Response) Value(value string) []string {
	if w.used == len(w.values) {
		return []string{value}
	}
	w.used++
	one := w.values[w.used-1 : w.used : w.used]
	one[0] = value
	return one
}

// extend gives the client time for the next piece, also after the handler, or returns why it was cut off. The deadline stays
// with the connection, so every request sets its own.
func (w *Response) extend() error {
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

// giveTurn lets other requests run before the next piece for a client. A write to a client that takes everything at once never
// waits, and would keep the processor for a whole time slice.
func (w *Response) giveTurn() {
	if w.turn >= pieceSize {
		w.turn = 0
		runtime.Gosched()
	}
}

// WriteHeader implements [http.ResponseWriter].
func (w *Response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [io.Writer].
func (w *Response) Write(p []byte) (written int, err error) {
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
func (w *Response) writePiece(p []byte) (int, error) {
	if w.begun || len(p) < maxBuffered {
		return w.ResponseWriter.Write(p)
	}
	w.begun = true
	c, ok := w.ctx.Value(connKey{}).(*conn)
	if !ok {
		return w.ResponseWriter.Write(p)
	}
	c.hold()
	n, err := w.ResponseWriter.Write(p)
	errRelease := c.release() // also after an error: the connection is held
	return n, cmp.Or(err, errRelease)
}

// ReadFrom implements [io.ReaderFrom]. The system sends an [io.LimitedReader] of a file, also of a file of a [modproxy.Sender],
// unless the connection uses TLS or the client is too old.
func (w *Response) ReadFrom(r io.Reader) (written int64, err error) {
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
	if !errors.Is(err, syscall.EIO) { // an error of the file
		w.failed = cmp.Or(err, w.failed)
	}
	return written, err
}

// Unwrap is for [http.ResponseController].
func (w *Response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Failed returns the error of the write to the client that failed, or nil if all writes succeeded.
func (w *Response) Failed() error { return w.failed }

// OnlySends says that the rest of the answer needs nothing but what the handler has opened. See [Requests].
func (w *Response) OnlySends() {
	if !w.onlySends {
		w.onlySends = true
		w.requests.send()
	}
}

// EndOf returns the cause with which the proxy itself has ended ctx, the context of a request. It returns nil while ctx has not ended,
// and also if ctx has ended without a cause, because the client has gone. ctx.Err distinguishes these two.
func EndOf(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return cause
	}
	return nil
}

// CutWhenEnded cuts the client off when ctx ends with a cause, until the handler ends and calls stop. It does not cut off clients
// because of [ErrShuttingDown], which they receive.
func (w *Response) CutWhenEnded(ctx context.Context) (stop func()) {
	unregister := context.AfterFunc(ctx, func() {
		why := EndOf(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		if why != nil && !errors.Is(why, ErrShuttingDown) && !w.done {
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
