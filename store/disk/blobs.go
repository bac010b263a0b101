package disk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/store"
)

// blobs implements [store.Blobs].
type blobs struct{ d *Directory }

func (d *Directory) blobPath(digest modproxy.Digest) string {
	name := digest.String()
	return d.path(blobsName, name[:2], name)
}

func (x blobs) Put(ctx context.Context, digest modproxy.Digest, r io.Reader) error {
	done, err := x.d.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	body := &reader{ctx: ctx, Reader: r}
	if err = x.put(digest, body); body.err != nil {
		return err
	}
	return x.d.health.note(err)
}

func (x blobs) put(digest modproxy.Digest, body *reader) error {
	name := x.d.blobPath(digest)
	dir := filepath.Dir(name)
	// Another goroutine may have created the directory, and not have flushed it yet.
	if err := errors.Join(x.d.disk.MkdirAll(dir), x.d.disk.FlushDir(filepath.Dir(dir))); err != nil {
		return err
	}
	switch _, err := lstatFile(name); {
	case err == nil:
		return x.d.disk.FlushDir(dir) // another Put may not have reached this step
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	temp, err := x.writeTemp(digest, body)
	if err != nil {
		return err
	}
	if err = x.d.disk.Rename(temp, name); err != nil {
		os.Remove(name) // the rename may not be durable
	}
	return err
}

// writeTemp writes a temporary file. If body is a file that can be linked, writeTemp links it instead.
func (x blobs) writeTemp(digest modproxy.Digest, body *reader) (temp string, err error) {
	write := func(f *os.File, to io.Writer) error {
		hash := sha256.New()
		if _, err := io.Copy(io.MultiWriter(hash, to), body); err != nil {
			return err
		}
		if modproxy.Digest(hash.Sum(nil)) != digest {
			return fmt.Errorf("blob %s: %w", digest, store.ErrDamaged)
		}
		return f.Chmod(0o444)
	}
	dir := x.d.path(tempName)
	if file, ok := body.Reader.(store.File); ok {
		if f, err := durable.LinkTemp(dir, tempBase, file.Link); err == nil { // otherwise the file is on another file system, or links are not supported
			return x.d.disk.FinishTemp(f, func(f *os.File) error { return write(f, io.Discard) })
		}
	}
	return x.d.disk.WriteTemp(dir, tempBase, func(f *os.File) error { return write(f, f) })
}

// reader ends with its context, and records the error of its reader.
type reader struct {
	io.Reader
	ctx context.Context
	err error
}

func (r *reader) Read(p []byte) (n int, err error) {
	if err = r.ctx.Err(); err == nil {
		n, err = r.Reader.Read(p)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// lstatFile returns [store.ErrDamaged] if name is not a regular file.
func lstatFile(name string) (fs.FileInfo, error) {
	info, err := os.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file", store.ErrDamaged, name)
	}
	return info, err
}

type blob struct {
	*os.File
	size int64
}

func (b blob) Size() int64 { return b.size }

// Stamp implements [store.Stamped].
func (b blob) Stamp() store.Stamp { return stampOf(b.File) }

func (x blobs) Open(ctx context.Context, digest modproxy.Digest) (store.Blob, error) {
	name := x.d.blobPath(digest)
	if _, err := lstatFile(name); err != nil {
		return nil, err
	}
	f, err := durable.OpenRegular(name, os.O_RDONLY|durable.NoFollow)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, durable.ErrNotRegular):
		return nil, fmt.Errorf("%w: %w", store.ErrDamaged, err) // it was readable when it was put
	case err != nil:
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return blob{f, info.Size()}, nil
}

func (x blobs) Stat(ctx context.Context, digest modproxy.Digest) (store.BlobInfo, error) {
	file, err := lstatFile(x.d.blobPath(digest))
	if err != nil {
		return store.BlobInfo{}, err
	}
	list := []store.BlobInfo{blobInfo(digest, file)}
	err = x.addUses(ctx, list)
	return list[0], err
}

func blobInfo(digest modproxy.Digest, file fs.FileInfo) store.BlobInfo {
	return store.BlobInfo{Digest: digest, Size: file.Size(), Time: file.ModTime(), Used: file.ModTime()}
}

// addUses adds the last uses of blobs, and whether records need them, from the index.
func (x blobs) addUses(ctx context.Context, list []store.BlobInfo) error {
	return x.d.view(ctx, func(tx *bbolt.Tx) error {
		each := func(bucket []byte, add func(b *store.BlobInfo, value []byte)) error {
			return x.d.read(tx, bucket, func(c cursor) error {
				for i := range list {
					b := &list[i]
					k, v, err := c.seek(b.Digest[:])
					if err != nil {
						return err
					}
					if bytes.HasPrefix(k, b.Digest[:]) {
						add(b, v)
					}
				}
				return nil
			})
		}
		if err := each(needsBucket, func(b *store.BlobInfo, _ []byte) { b.Needed = true }); err != nil {
			return err
		}
		return each(usesBucket, func(b *store.BlobInfo, value []byte) {
			if len(value) == 8 {
				if at := time.UnixMilli(int64(binary.BigEndian.Uint64(value))); at.After(b.Time) {
					b.Used = at
				}
			}
		})
	})
}

// Blobs ignores files with other names than those of blobs.
func (x blobs) Blobs(ctx context.Context) iter.Seq2[store.BlobInfo, error] {
	return func(yield func(store.BlobInfo, error) bool) {
		dirs, err := os.ReadDir(x.d.path(blobsName))
		for _, dir := range dirs {
			if !dir.IsDir() {
				continue
			}
			var list []store.BlobInfo
			if list, err = x.blobsIn(ctx, x.d.path(blobsName, dir.Name())); err != nil {
				break
			}
			for _, info := range list {
				if !yield(info, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(store.BlobInfo{}, err)
		}
	}
}

// turnAfter is the number of blobs or records between two yields of the processor. Loops over them never block: on a
// single processor, every request would otherwise wait for a whole time slice.
const turnAfter = 16

// blobsIn returns the blobs in a directory. It reads the index once for all of them.
func (x blobs) blobsIn(ctx context.Context, dir string) (list []store.BlobInfo, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for i, entry := range entries {
		if i%turnAfter == 0 {
			runtime.Gosched()
		}
		digest, err := modproxy.ParseDigest(entry.Name())
		if err != nil || filepath.Join(dir, entry.Name()) != x.d.blobPath(digest) {
			continue
		}
		file, err := entry.Info()
		switch {
		case err == nil:
			list = append(list, blobInfo(digest, file))
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return list, x.addUses(ctx, list)
}

func (x blobs) Touch(ctx context.Context, used map[modproxy.Digest]time.Time) error {
	return x.d.update(ctx, func(tx *bbolt.Tx) error {
		for digest, at := range used {
			if _, err := lstatFile(x.d.blobPath(digest)); err != nil {
				continue
			}
			ms := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))
			if err := tx.Bucket(usesBucket).Put(digest[:], ms); err != nil {
				return err
			}
		}
		return nil
	})
}
