package disk

import (
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
	"strings"
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

func (x blobs) put(digest modproxy.Digest, body io.Reader) error {
	name := x.d.blobPath(digest)
	dir := filepath.Dir(name)
	// Another goroutine may have made the directory, and not have flushed it yet.
	if err := errors.Join(x.d.disk.MkdirAll(dir), x.d.disk.FlushDir(filepath.Dir(dir))); err != nil {
		return err
	}
	switch _, err := lstatFile(name); {
	case err == nil:
		return x.d.disk.FlushDir(dir) // another Put may not have come to this
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	temp, err := x.d.disk.WriteTemp(x.d.path(tempName), tempBase, func(f *os.File) error {
		hash := sha256.New()
		if _, err := io.Copy(f, io.TeeReader(body, hash)); err != nil {
			return err
		}
		if modproxy.Digest(hash.Sum(nil)) != digest {
			return fmt.Errorf("blob %s: %w", digest, store.ErrDamaged)
		}
		return f.Chmod(0o444)
	})
	if err != nil {
		return err
	}
	if err = x.d.disk.Rename(temp, name); err != nil {
		os.Remove(name) // it may not last
	}
	return err
}

// reader ends with the context, and remembers its error.
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

// lstatFile returns [store.ErrDamaged] for what is not a regular file.
func lstatFile(name string) (fs.FileInfo, error) {
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is not a regular file", store.ErrDamaged, name)
	}
	return info, nil
}

type blob struct {
	*os.File
	size int64
}

func (b blob) Size() int64 { return b.size }

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

func (x blobs) Stat(ctx context.Context, digest modproxy.Digest) (info store.BlobInfo, err error) {
	file, err := lstatFile(x.d.blobPath(digest))
	if err != nil {
		return info, err
	}
	list := []store.BlobInfo{blobInfo(digest, file)}
	err = x.addUses(ctx, list)
	return list[0], err
}

func blobInfo(digest modproxy.Digest, info fs.FileInfo) store.BlobInfo {
	return store.BlobInfo{Digest: digest, Size: info.Size(), Time: info.ModTime(), Used: info.ModTime()}
}

// addUses adds what the index has of when they were used.
func (x blobs) addUses(ctx context.Context, list []store.BlobInfo) error {
	return x.d.view(ctx, func(tx *bbolt.Tx) error {
		for i := range list {
			if b := tx.Bucket(usesBucket).Get(list[i].Digest[:]); len(b) == 8 {
				if at := time.UnixMilli(int64(binary.BigEndian.Uint64(b))); at.After(list[i].Time) {
					list[i].Used = at
				}
			}
		}
		return nil
	})
}

// Blobs passes over what does not have the name of a blob.
func (x blobs) Blobs(ctx context.Context) iter.Seq2[store.BlobInfo, error] {
	return func(yield func(store.BlobInfo, error) bool) {
		fans, err := os.ReadDir(x.d.path(blobsName))
		for i := 0; i < len(fans) && err == nil; i++ {
			var list []store.BlobInfo
			list, err = x.in(ctx, fans[i])
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

// in returns the blobs whose digests begin with the name of a directory.
func (x blobs) in(ctx context.Context, fan fs.DirEntry) (list []store.BlobInfo, err error) {
	if !fan.IsDir() {
		return nil, nil
	}
	entries, err := os.ReadDir(x.d.path(blobsName, fan.Name()))
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		digest, err := modproxy.ParseDigest(entry.Name())
		if err != nil || !strings.HasPrefix(entry.Name(), fan.Name()) {
			continue // nothing looks for it here
		}
		if info, err := entry.Info(); err == nil {
			list = append(list, blobInfo(digest, info))
		} else if !errors.Is(err, fs.ErrNotExist) {
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
