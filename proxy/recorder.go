package proxy

import (
	"errors"
	"net/http"
	"os"
	"sync"
	"time"
)

// A client must take this many bytes in slowTime, or it is cut off: it holds one
// of the requests that are answered at the same time.
const (
	slowBytes = 64 << 10
	slowTime  = 60 * time.Second
)

var errSlow = errors.New("the client took its answer too slowly, and was cut off")

// recorder remembers what was answered, and hands it on in pieces of slowBytes,
// each with a deadline of its own.
type recorder struct {
	http.ResponseWriter
	control http.ResponseController
	slow    time.Duration // for each piece; 0 is any time
	status  int
	bytes   int64
	cut     bool

	mu    sync.Mutex // for the deadline, and what follows
	over  bool       // the handler has ended
	ended error      // why the request was ended before
}

func newRecorder(w http.ResponseWriter, slow time.Duration) *recorder {
	return &recorder{ResponseWriter: w, control: *http.NewResponseController(w), slow: slow}
}

// extend gives the client time for what is written next. What is written after
// the handler's end counts, too: headers, and the last that is in a buffer. The
// deadline stays with the connection, so every request sets its own.
func (r *recorder) extend() {
	var deadline time.Time
	if r.slow > 0 {
		deadline = time.Now().Add(r.slow)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return
	}
	_ = r.control.SetWriteDeadline(deadline) // a test's writer has none
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (written int, err error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	for len(p) > 0 && err == nil {
		piece := p[:min(len(p), slowBytes)]
		p = p[len(piece):]
		r.extend()
		if err = r.endedBy(); err != nil {
			break
		}
		var n int
		n, err = r.ResponseWriter.Write(piece)
		written += n
	}
	r.bytes += int64(written)
	r.cut = r.cut || errors.Is(err, os.ErrDeadlineExceeded)
	return written, err
}

// endedBy is why the request was ended before its end; nil if it was not.
func (r *recorder) endedBy() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
