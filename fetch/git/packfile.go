package git

import (
	"errors"
	"io"
	"sync/atomic"
)

// packfile reads the pack in the last section of an answer. It holds the last byte of the pack back until the answer
// has ended correctly, so that no reader accepts the pack before.
type packfile struct {
	from   packets
	body   io.Closer
	fail   func(error) // receives the first error, unless the packfile is closed
	closed atomic.Bool

	data  []byte // of the last packet line
	rest  []byte // the unread rest of data
	held  []byte // the last byte of the pack so far
	ended bool
	err   error
}

// said is an error message of the server.
type said struct{ text string }

func (s *said) Error() string { return s.text }

const (
	bandData     = 1
	bandProgress = 2
	bandError    = 3
)

func (f *packfile) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		if f.err == nil {
			f.err = f.next()
		}
		if f.err != nil {
			f.rest = nil
			if f.err != io.EOF && !f.closed.Load() {
				f.fail(f.err)
			}
			return 0, f.err
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// next reads one packet line.
func (f *packfile) next() error {
	if f.ended {
		return io.EOF
	}
	kind, data, err := f.from.next()
	switch {
	case err != nil:
		return whole(err)
	case kind == packetFlush && f.held != nil:
		f.rest, f.ended = f.held, true
		return f.from.end()
	case kind != packetData || len(data) == 0:
		return unexpected("a pack without an end")
	}
	switch band, data := data[0], data[1:]; {
	case band == bandProgress || band == bandData && len(data) == 0:
		return nil
	case band == bandData:
		last := len(data) - 1
		f.data = append(append(f.data[:0], f.held...), data[:last]...)
		f.rest, f.held = f.data, append(f.held[:0], data[last])
		return nil
	case band == bandError:
		return &said{string(data)}
	default:
		return unexpected("sideband %d", band)
	}
}

// Close closes the answer. It also ends a Read in progress.
func (f *packfile) Close() error {
	f.closed.Store(true)
	return f.body.Close()
}

// whole returns err, for an answer that has begun: an end of the input is io.ErrUnexpectedEOF.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
