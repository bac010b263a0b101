//go:build linux

package store_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/test/rig"
)

// socket is a client behind a connection. The system holds most of the sent bytes: copies of written bytes, and for
// files a reference to their current bytes. A test can act before each step.
type socket struct {
	most   int64
	got    bytes.Buffer // by the client
	held   []func() []byte
	sizes  []int64
	holds  int64
	steps  int
	before func(step int)
}

func (s *socket) step(n int64, bytes func() []byte) {
	s.steps++
	s.before(s.steps)
	s.held, s.sizes, s.holds = append(s.held, bytes), append(s.sizes, n), s.holds+n
	s.arrive(s.most)
}

// arrive delivers all but the last most bytes that the system holds.
func (s *socket) arrive(most int64) {
	for s.holds > most {
		s.got.Write(s.held[0]())
		s.holds -= s.sizes[0]
		s.held, s.sizes = s.held[1:], s.sizes[1:]
	}
}

func (s *socket) Write(p []byte) (int, error) {
	p = bytes.Clone(p)
	s.step(int64(len(p)), func() []byte { return p })
	return len(p), nil
}

func (s *socket) ReadFrom(r io.Reader) (int64, error) {
	limited := r.(*io.LimitedReader)
	file := limited.R.(interface {
		io.Seeker
		io.ReaderAt
		store.Blob
	})
	begin, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	var sent int64
	for limited.N > 0 && err == nil {
		at, n := begin+sent, min(limited.N, 64<<10)
		s.step(n, func() []byte {
			p := make([]byte, n)
			file.ReadAt(p, at) // if the bytes no longer exist, the client gets arbitrary bytes
			return p
		})
		limited.N -= n
		sent += n
		_, err = file.Seek(n, io.SeekCurrent)
	}
	return sent, err
}

// A program may write into a file while the file is sent, also while its bytes are still in the machine, and may write
// the right bytes back. A client that gets all bytes gets the right ones.
func TestWhatIsVerifiedIsWhatArrives(t *testing.T) {
	f := newFiles(t)
	size := int64(len(f.data))
	send := func(most int64, before func(step int)) (s *socket, err error) {
		s = &socket{most: most, before: before}
		r, err := f.Open(t.Context(), f.d, size)
		if err != nil {
			return s, err
		}
		defer r.Close()
		_, err = io.Copy(s, r)
		s.arrive(0)
		return s, err
	}
	complete := func(most int64) (steps int) {
		t.Helper()
		s, err := send(most, func(int) {})
		if err != nil || !bytes.Equal(s.got.Bytes(), f.data) {
			t.Fatalf("the right bytes: %v; %v", bytes.Equal(s.got.Bytes(), f.data), err)
		}
		return s.steps
	}
	complete(0)                                    // is checked
	for _, at := range []int64{1 << 20, 6 << 20} { // position of the wrong byte
		for _, most := range []int64{128 << 10, 4 << 20} {
			if !rig.Long() && (at == 1<<20) != (most == 128<<10) {
				continue // each value is tried with one of the others
			}
			last := complete(most)
			arrives := int((at+most)/(64<<10)) + 1
			for _, wrong := range []int{arrives, last} { // the step before which it is written
				for _, later := range []int{0, 1, 8} { // steps until the right byte is written back; 0: never
					if !rig.Long() && later == 8 {
						continue
					}
					s, err := send(most, func(step int) {
						var err error
						if step == wrong {
							err = writeAt(f.name, f.data[at]^1, at)
						} else if step == wrong+later {
							err = writeAt(f.name, f.data[at], at)
						}
						if err != nil {
							t.Fatal(err)
						}
					})
					if got := s.got.Bytes(); int64(len(got)) >= size && !bytes.Equal(got, f.data) {
						t.Errorf("other bytes: %d are held, that at %d is wrong from step %d of %d on, for %d; %v",
							most, at, wrong, last, later, err)
					}
					if f.Check(t.Context(), f.d) != nil {
						f.put(t)
					}
					complete(most) // is checked
				}
			}
		}
	}
}
