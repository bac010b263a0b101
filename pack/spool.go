package pack

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/modproxy/modproxy"
)

// buffers holds what content is copied through.
var buffers = sync.Pool{New: func() any { return new([128 << 10]byte) }}

// A spool keeps contents, one after the other, in a file without a name.
type spool struct {
	f    *os.File
	w    *bufio.Writer
	size int64
}

func newSpool(dir string) (*spool, error) {
	f, err := os.CreateTemp(dir, "spool-*")
	if err != nil {
		return nil, spoolError(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, spoolError(errors.Join(err, f.Close()))
	}
	return &spool{f: f, w: bufio.NewWriterSize(f, 128<<10)}, nil
}

func spoolError(err error) error {
	return fmt.Errorf("%w: package: spool: %w", modproxy.ErrUnavailable, err)
}

// add appends what r has, counted by t, and says where it is.
func (s *spool) add(name string, r io.Reader, t *tally) (off, size int64, err error) {
	off = s.size
	buf := buffers.Get().(*[128 << 10]byte)
	defer buffers.Put(buf)
	for {
		n, err := r.Read(buf[:])
		if n > 0 {
			if err := t.content(name, int64(n)); err != nil {
				return 0, 0, err
			}
			if _, err := s.w.Write(buf[:n]); err != nil {
				return 0, 0, spoolError(err)
			}
			s.size += int64(n)
		}
		if err == io.EOF {
			return off, s.size - off, nil
		}
		if err != nil {
			return 0, 0, fmt.Errorf("package: %q: %w", name, err)
		}
	}
}

// copyTo writes what is kept at off to w.
func (s *spool) copyTo(w io.Writer, off, size int64) error {
	buf := buffers.Get().(*[128 << 10]byte)
	defer buffers.Put(buf)
	for size > 0 {
		p := buf[:min(size, int64(len(buf)))]
		if _, err := s.f.ReadAt(p, off); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return spoolError(err)
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
		off, size = off+int64(len(p)), size-int64(len(p))
	}
	return nil
}

func (s *spool) flush() error {
	if err := s.w.Flush(); err != nil {
		return spoolError(err)
	}
	return nil
}

func (s *spool) close() error {
	if err := s.f.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return spoolError(err)
	}
	return nil
}
