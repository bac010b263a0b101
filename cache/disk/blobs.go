package disk

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"strings"
	"syscall"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

func (s *Store) blobPath(d modproxy.Digest) string {
	name := d.String()
	return s.path(blobsName, name[:2], name)
}

// Put implements [cache.Blobs].
func (s *Store) Put(ctx context.Context, d modproxy.Digest, r io.Reader) error {
	done, err := s.use()
	if err != nil {
		return err
	}
	defer done()
	if err := s.health.writable(); err != nil {
		return err
	}
	body := &reader{ctx: ctx, r: r}
	err = s.put(d, body)
	if body.err == nil {
		s.health.note(err)
	}
	return err
}

func (s *Store) put(d modproxy.Digest, body io.Reader) error {
	dir, err := s.fan(blobsName, d.String()[:2])
	if err != nil {
		return err
	}
	name := s.blobPath(d)
	switch _, err := lstatFile(name); {
	case err == nil:
		return s.flushDir(dir) // who renamed it may not have come to this
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	hash := sha256.New()
	temp, err := s.writeTemp(0o444, io.TeeReader(body, hash))
	if err != nil {
		return err
	}
	if modproxy.Digest(hash.Sum(nil)) != d {
		os.Remove(temp)
		return cache.ErrDamaged
	}
	if err := s.rename(temp, name); err != nil {
		os.Remove(name) // it may not last
		return err
	}
	return nil
}

// reader ends with the context, and remembers its error.
type reader struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (r *reader) Read(p []byte) (n int, err error) {
	if err = r.ctx.Err(); err == nil {
		n, err = r.r.Read(p)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// lstatFile is what is at name; [cache.ErrDamaged] when it is no plain file.
func lstatFile(name string) (fs.FileInfo, error) {
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is not a plain file", cache.ErrDamaged, name)
	}
	return info, nil
}

type blob struct {
	*os.File
	size int64
}

func (b blob) Size() int64 { return b.size }

// Open implements [cache.Blobs].
func (s *Store) Open(d modproxy.Digest) (cache.Blob, error) {
	done, err := s.use()
	if err != nil {
		return nil, err
	}
	defer done()
	name := s.blobPath(d)
	info, err := lstatFile(name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: %w", cache.ErrDamaged, err) // it was readable when it was kept
	case err != nil:
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(info, opened) {
		err = fmt.Errorf("%w: %s was replaced while it was opened", cache.ErrDamaged, name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return blob{f, opened.Size()}, nil
}

// Stat implements [cache.Blobs].
func (s *Store) Stat(d modproxy.Digest) (int64, error) {
	done, err := s.use()
	if err != nil {
		return 0, err
	}
	defer done()
	info, err := lstatFile(s.blobPath(d))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Remove implements [cache.Blobs]. It flushes nothing: what comes back after a
// power cut is counted again.
func (s *Store) Remove(d modproxy.Digest) error {
	done, err := s.change()
	if err != nil {
		return err
	}
	defer done()
	name := s.blobPath(d)
	if err := os.Remove(name); !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	return os.RemoveAll(name) // a directory, which is no blob
}

// All implements [cache.Blobs]. What does not have the name of a blob is passed
// over.
func (s *Store) All() iter.Seq2[cache.BlobInfo, error] {
	return func(yield func(cache.BlobInfo, error) bool) {
		for entry, err := range s.entries(blobsName) {
			info, ok, err := blobInfo(entry, err)
			if !ok && err == nil {
				continue
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// blobInfo is about an entry of the blobs; false when it is none, or is gone.
func blobInfo(entry fs.DirEntry, err error) (cache.BlobInfo, bool, error) {
	if err != nil {
		return cache.BlobInfo{}, false, err
	}
	d, err := modproxy.ParseDigest(entry.Name())
	if err != nil {
		return cache.BlobInfo{}, false, nil
	}
	info, err := entry.Info()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cache.BlobInfo{}, false, nil
	case err != nil:
		return cache.BlobInfo{}, false, err
	}
	return cache.BlobInfo{Digest: d, Size: info.Size(), Time: info.ModTime()}, true, nil
}

// entries yields what is in the directories below name that are named after the
// beginnings of digests. An error ends it.
func (s *Store) entries(name string) iter.Seq2[fs.DirEntry, error] {
	return func(yield func(fs.DirEntry, error) bool) {
		fans, err := os.ReadDir(s.path(name))
		if err != nil {
			yield(nil, err)
			return
		}
		for _, fan := range fans {
			if !fan.IsDir() {
				continue
			}
			entries, err := os.ReadDir(s.path(name, fan.Name()))
			if err != nil {
				yield(nil, err)
				return
			}
			for _, entry := range entries {
				if !strings.HasPrefix(entry.Name(), fan.Name()) {
					continue // nobody looks for it here
				}
				if !yield(entry, nil) {
					return
				}
			}
		}
	}
}
