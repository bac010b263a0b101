package auth

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	lookSoon  = 10 * time.Millisecond
	lookAgain = time.Second     // what was seen less long ago counts without looking
	maxUnseen = 5 * time.Second // what was seen longer ago never counts
	settling  = 2 * time.Second // a file that was changed more recently is read again: clocks of file systems are coarse
	maxFile   = 8 << 20         // bytes
)

var errGone = errors.New("it was there, and is gone: put it back, or restart modproxy to do without")

// watched is what a file says. The file is replaced as a whole by whoever changes
// it, in this process or another. That it is not there is well at first, and an
// error once it has been there.
type watched[T any] struct {
	path   string
	parse  func(content []byte) (T, error)
	absent T // while there is no file
	start  time.Time

	mu   sync.Mutex // looks
	last atomic.Pointer[seen[T]]
}

// seen is what a file said, and when.
type seen[T any] struct {
	value   T
	err     error
	at      time.Duration // since the start
	file    fs.FileInfo   // nil if there was none
	settled bool          // a change would have changed file
}

func watch[T any](path string, start time.Time, absent T, parse func([]byte) (T, error)) (*watched[T], error) {
	w := &watched[T]{path: path, parse: parse, absent: absent, start: start}
	s := w.read(nil, 0)
	if s.err != nil {
		return nil, s.err
	}
	w.last.Store(s)
	return w, nil
}

// get is what the file says, as of no longer than maxUnseen before now. While
// one caller looks, the others go on with what was seen before.
func (w *watched[T]) get(now time.Time) (T, error) {
	at := now.Sub(w.start)
	s := w.last.Load()
	if age := at - s.at; age >= lookAgain || age <= -maxUnseen {
		if age >= maxUnseen || age <= -maxUnseen {
			w.mu.Lock()
			s = w.look(at, lookAgain)
			w.mu.Unlock()
		} else if w.mu.TryLock() {
			s = w.look(at, lookAgain)
			w.mu.Unlock()
		}
	}
	return s.value, s.err
}

// again is what the file says, as of no longer than lookSoon before now: for who
// did not find in it what may just have been written.
func (w *watched[T]) again(now time.Time) (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.look(now.Sub(w.start), lookSoon)
	return s.value, s.err
}

// fresh is what the file says now.
func (w *watched[T]) fresh() (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.look(time.Since(w.start), 0)
	return s.value, s.err
}

// look looks at the file unless that was done less than recent before at.
func (w *watched[T]) look(at, recent time.Duration) *seen[T] {
	before := w.last.Load()
	if age := at - before.at; -recent < age && age < recent {
		return before
	}
	s := w.read(before, at)
	w.last.Store(s)
	return s
}

func (w *watched[T]) read(before *seen[T], at time.Duration) *seen[T] {
	was := before != nil && (before.file != nil || before.err != nil)
	bad := func(err error) *seen[T] {
		return &seen[T]{value: w.absent, err: fmt.Errorf("%s: %w", w.path, err), at: at}
	}
	file, err := os.Stat(w.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !was:
		return &seen[T]{value: w.absent, at: at}
	case errors.Is(err, fs.ErrNotExist):
		return bad(errGone)
	case err != nil:
		return bad(err)
	case !file.Mode().IsRegular():
		return bad(errors.New("not a file"))
	}
	if before != nil && before.settled && os.SameFile(before.file, file) &&
		before.file.ModTime().Equal(file.ModTime()) && before.file.Size() == file.Size() {
		again := *before
		again.at = at
		return &again
	}
	content, file, err := readFile(w.path)
	if err != nil {
		return bad(err)
	}
	value, err := w.parse(content)
	if err != nil {
		return bad(err)
	}
	return &seen[T]{value: value, at: at, file: file, settled: time.Since(file.ModTime()) > settling}
}

// readFile reads a file, and tells of the file that was read.
func readFile(path string) (content []byte, file fs.FileInfo, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if file, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	content, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("larger than %d bytes", maxFile)
	}
	return content, file, err
}
