package git

import (
	"errors"
	"io"
	"sync/atomic"
)

// packfile reads the pack out of the last section of an answer. Its last byte comes only when the answer is known to
// end there, so that nobody takes the pack for whole before that.
type packfile struct {
	from   packets
	body   io.Closer
	fail   func(error) // told of the first error, while the packfile is not closed
	closed atomic.Bool

	data  []byte // of the last packet line
	rest  []byte // of data, to be read
	held  []byte // the last byte that came
	ended bool
	err   error
}

// said is what a server says went wrong.
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

// next takes one packet line.
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

// Close ends the answer, also for a Read under way.
func (f *packfile) Close() error {
	f.closed.Store(true)
	return f.body.Close()
}

// whole returns err of an answer that has begun, of which an end is one too early.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
