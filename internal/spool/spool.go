// Package spool provides a file that readers can read while one goroutine writes it.
//
//	f, err := spool.New(dir)
//	r, err := f.Open(ctx)                                        // for each reader
//	go func() { _, err := io.Copy(f, body); f.End(err) }()       // the writer
//	_, err = io.Copy(w, r)                                       // to the end of the content
//	err = errors.Join(err, r.Close(), f.Close())
//
// The caller of New closes the File after the writer has ended: [File.Close] before that ends the content with an error.
//
// Invariants: every reader reads the whole content from the start, at its own pace. The content uses disk space, and no
// memory. Errors of the file are those of package os.
package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// File is a file that grows. Its methods are safe for concurrent use, but only one goroutine may write at a time.
type File struct {
	file *os.File

	mu    sync.Mutex
	size  int64
	end   error         // nil while the file grows, io.EOF after a successful end, otherwise the error of the writer
	grown chan struct{} // closed when size or end changes; nil when no reader waits
	users int           // open readers, plus one until Close
}

// New makes a file in dir. [File.Close] removes it.
func New(dir string) (*File, error) {
	file, err := os.CreateTemp(dir, "modproxy-*.tmp")
	if err != nil {
		return nil, err
	}
	return &File{file: file, users: 1}, nil
}

// Write appends p. It must not be called after End: readers may have ended.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.size += int64(n)
	f.wake()
	return n, err
}

// End ends the content. Reads after the content return err, or io.EOF if err is nil. Only the first call has an effect.
func (f *File) End(err error) {
	if err == nil {
		err = io.EOF
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end == nil {
		f.end = err
		f.wake()
	}
}

// wake wakes waiting readers. The caller holds mu.
func (f *File) wake() {
	if f.grown != nil {
		close(f.grown)
		f.grown = nil
	}
}

// ReadAt reads the content that was written so far, as [io.ReaderAt] specifies. It does not wait: after this content it returns
// [io.EOF], even if the file grows.
func (f *File) ReadAt(p []byte, off int64) (int, error) { return f.file.ReadAt(p, off) }

// Close ends the content with [fs.ErrClosed], unless it has ended, and removes the file. Open readers can continue: they read the
// content that was written before, and then the error or the end. Close must be called once.
func (f *File) Close() error {
	f.End(fs.ErrClosed)
	return errors.Join(os.Remove(f.file.Name()), f.leave())
}

// leave closes the file after its last user has left.
func (f *File) leave() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users--; f.users > 0 {
		return nil
	}
	return f.file.Close()
}

// Open returns a reader at the start of the file. Its reads wait for content until ctx ends. After Close and the end of all
// readers, the error is [fs.ErrClosed]. The caller must close the reader.
func (f *File) Open(ctx context.Context) (*Reader, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users == 0 {
		return nil, fs.ErrClosed
	}
	f.users++
	return &Reader{file: f, ctx: ctx}, nil
}

// Reader reads a File. It is not safe for concurrent use.
type Reader struct {
	file   *File
	ctx    context.Context
	offset int64
	closed bool
}

// Read waits until content is available. After the content it returns the error of [File.End], or [io.EOF].
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	left, err := r.wait()
	if err != nil {
		return 0, err
	}
	n, err := r.file.file.ReadAt(p[:min(int64(len(p)), left)], r.offset)
	if r.offset += int64(n); n > 0 {
		err = nil
	}
	if err == io.EOF { // the file was longer before
		err = fmt.Errorf("%s: %w", r.file.file.Name(), io.ErrUnexpectedEOF)
	}
	return n, err
}

// wait waits until content is available at the offset, and returns its size.
func (r *Reader) wait() (left int64, err error) {
	f := r.file
	for {
		f.mu.Lock()
		left, end := f.size-r.offset, f.end
		if left <= 0 && end == nil && f.grown == nil {
			f.grown = make(chan struct{})
		}
		grown := f.grown
		f.mu.Unlock()
		switch {
		case left > 0:
			return left, nil
		case end != nil:
			return 0, end
		}
		select {
		case <-grown:
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
	}
}

// Seek moves the reader. A seek relative to the end waits for the end of the file.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.offset
	case io.SeekEnd:
		size, err := r.size()
		if err != nil {
			return 0, err
		}
		offset += size
	default:
		return 0, fmt.Errorf("seek: whence %d: %w", whence, fs.ErrInvalid)
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek to %d: %w", offset, fs.ErrInvalid)
	}
	r.offset = offset
	return offset, nil
}

// size waits for the end of the file, and returns its size.
func (r *Reader) size() (int64, error) {
	at := Reader{file: r.file, ctx: r.ctx}
	for {
		left, err := at.wait()
		if err == io.EOF {
			return at.offset, nil
		} else if err != nil {
			return 0, err
		}
		at.offset += left
	}
}

// Link gives the file another name. Link does not check that the file has ended. The caller must know it, and call Link before
// Close of the File, which removes its name.
func (r *Reader) Link(name string) error { return os.Link(r.file.file.Name(), name) }

// Close closes the reader. Further calls do nothing.
func (r *Reader) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	return r.file.leave()
}
