package proxy

import (
	"errors"
	"net/http"
	"os"
	"sync"
	"time"
)

// A client must take a piece of pieceSize bytes in pieceTime, or it is cut off: it takes a place among the requests that
// are answered at the same time.
const (
	pieceSize = 64 << 10
	pieceTime = 60 * time.Second
)

var errSlow = errors.New("the client took its answer too slowly, and was cut off")

// response counts what is written, and writes it in pieces of pieceSize, each with a deadline of its own.
type response struct {
	http.ResponseWriter
	control http.ResponseController
	limit   time.Duration // for each piece; 0 for none
	status  int
	bytes   int64
	failed  error // by which writing to the client ended

	mu   sync.Mutex // guards the deadline and what follows
	done bool       // the handler has ended
	why  error      // the client was cut off because of this
}

func newResponse(w http.ResponseWriter, limit time.Duration) *response {
	return &response{ResponseWriter: w, control: *http.NewResponseController(w), limit: limit}
}

// extend gives the client time for what is written next. That may also be what is written after the handler has ended:
// headers, and what is left in a buffer. The deadline stays with the connection, so every request sets its own.
func (w *response) extend() {
	var deadline time.Time
	if w.limit > 0 {
		deadline = time.Now().Add(w.limit)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why == nil {
		_ = w.control.SetWriteDeadline(deadline) // a test's writer has none
	}
}

// cut ends what is being written, now.
func (w *response) cut(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.done {
		w.why = why
		_ = w.control.SetWriteDeadline(time.Unix(1, 0)) // a test's writer has none
	}
}

// cutBecause returns why the client was cut off, or nil.
func (w *response) cutBecause() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why
}

// tooSlow reports whether the client did not take a piece in time.
func (w *response) tooSlow() bool { return errors.Is(w.failed, os.ErrDeadlineExceeded) }

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
	for len(p) > 0 && err == nil {
		piece := p[:min(len(p), pieceSize)]
		p = p[len(piece):]
		w.extend()
		if err = w.cutBecause(); err != nil {
			break
		}
		var n int
		n, err = w.ResponseWriter.Write(piece)
		written += n
	}
	w.bytes += int64(written)
	if err != nil {
		w.failed = err
	}
	return written, err
}

// Unwrap is for [http.ResponseController].
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
