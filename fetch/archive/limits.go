package archive

import (
	"context"
	"fmt"
	"io"

	"github.com/modproxy/modproxy"
)

const (
	// An archive may expand to what the package may have, and for its headers to room, and
	// to roomForEntry for each entry.
	room         = 1 << 20
	roomForEntry = 1 << 10
	// maxRatio bounds how many bytes one byte of an archive expands to. The smallest
	// archive may expand to minExpanded.
	maxRatio    = 100
	minExpanded = 64 << 20
	// maxHeader bounds the tar blocks that describe one entry.
	maxHeader = 256 << 10
	// maxTarget bounds the length of a symbolic link's target.
	maxTarget = 4096
)

// An input is the archive as it was fetched. It keeps an error of its own, which the
// decoders above it may report as the archive's fault.
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

// An output counts what an archive expands to. It keeps the first error that stopped
// it, which the decoders and the builder above it may wrap.
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

func (o *output) stop(err error) error {
	if o.err == nil {
		o.err = err
	}
	return o.err
}
