package registrytest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// blob is a file that is generated whenever it is sent, so that a large one takes no space.
type blob struct {
	size  int64
	sum   [sha256.Size]byte
	write func(io.Writer) error
}

func newBlob(write func(io.Writer) error) (blob, error) {
	hash, size := sha256.New(), new(counter)
	err := write(io.MultiWriter(hash, size))
	return blob{int64(*size), [sha256.Size]byte(hash.Sum(nil)), write}, err
}

func blobOf(data []byte) blob {
	write := func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
	return blob{int64(len(data)), sha256.Sum256(data), write}
}

// half returns the first half of b.
func (b blob) half() (blob, error) {
	return newBlob(func(w io.Writer) error {
		err := b.write(&limited{w, b.size / 2})
		if errors.Is(err, errEnough) {
			return nil
		}
		return err
	})
}

// serve sends b, or the end of it that r requests.
func (b blob) serve(w http.ResponseWriter, r *http.Request) {
	var from int64
	status := http.StatusOK
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err != nil || from <= 0 || from >= b.size {
		from = 0
	} else {
		status = http.StatusPartialContent
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, b.size-1, b.size))
	}
	w.Header().Set("Content-Length", fmt.Sprint(b.size-from))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		b.write(&skipping{w, from}) // an error means that the client has disconnected
	}
}

// skipping writes everything after the next left bytes.
type skipping struct {
	io.Writer
	left int64
}

func (w *skipping) Write(p []byte) (int, error) {
	skipped := min(w.left, int64(len(p)))
	w.left -= skipped
	n, err := w.Writer.Write(p[skipped:])
	return n + int(skipped), err
}

type counter int64

func (n *counter) Write(p []byte) (int, error) {
	*n += counter(len(p))
	return len(p), nil
}

var errEnough = errors.New("enough is written")

// limited writes at most left bytes.
type limited struct {
	io.Writer
	left int64
}

func (w *limited) Write(p []byte) (int, error) {
	if int64(len(p)) < w.left {
		w.left -= int64(len(p))
		return w.Writer.Write(p)
	}
	n, err := w.Writer.Write(p[:w.left])
	w.left -= int64(n)
	return n, errors.Join(err, errEnough)
}
