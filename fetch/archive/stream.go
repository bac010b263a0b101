package archive

import (
	"context"
	"fmt"
	"io"

	"github.com/modproxy/modproxy"
)

// An input is the archive as it was fetched. It remembers an error of its own, which
// the decoders above it may present as the archive's fault.
type input struct {
	ctx context.Context
	f   io.ReaderAt
	err error
}

func (in *input) ReadAt(p []byte, off int64) (int, error) {
	if in.err == nil && in.ctx.Err() != nil {
		in.err = fmt.Errorf("archive: %w", in.ctx.Err())
	}
	if in.err != nil {
		return 0, in.err
	}
	n, err := in.f.ReadAt(p, off)
	if n == len(p) {
		return n, nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // the size was given
	}
	in.err = fmt.Errorf("%w: archive: read: %w", modproxy.ErrUnavailable, err)
	return n, in.err
}

// An output counts what an archive expands to. It remembers why it stopped, which the
// decoders and the builder above it may wrap in more than it needs.
type output struct {
	ctx    context.Context
	n, max int64
	err    error
}

func (o *output) add(n int) error {
	o.n += int64(n)
	if o.n > o.max {
		return o.stop(refuse("expands to more than the %d bytes that are allowed for its size", o.max))
	}
	if o.ctx.Err() != nil {
		return o.stop(fmt.Errorf("archive: %w", o.ctx.Err()))
	}
	return o.err
}

// stop keeps the first error.
func (o *output) stop(err error) error {
	if o.err == nil {
		o.err = err
	}
	return o.err
}

// A stream is the tar archive that comes out of a decompressor.
type stream struct {
	r   io.Reader
	out *output

	inHeader bool
	header   int64 // bytes that the current header may still have
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err := s.out.add(n); err != nil {
		return 0, err
	}
	if s.inHeader {
		if s.header -= int64(n); s.header < 0 {
			return 0, s.out.stop(refuse("more than the %d bytes that are allowed for one header", maxHeader))
		}
	}
	return n, err
}

// expectHeader bounds what is read until expectContent is called.
func (s *stream) expectHeader() { s.inHeader, s.header = true, maxHeader }

func (s *stream) expectContent() { s.inHeader = false }
