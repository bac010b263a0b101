package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// Remove deletes the records before the files. On a full disk the index cannot be written before there is room: then
// the files are removed first, and records may stay. The removal of files is not flushed: after a power cut, a blob
// without records may reappear.
func (x blobs) Remove(ctx context.Context, how store.Removal, list ...modproxy.Digest) (removed []store.BlobInfo, err error) {
	done, err := x.d.change(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	x.d.writing.Lock() // held until the files are removed
	defer x.d.writing.Unlock()
	var going []store.BlobInfo
	forget := func(tx *bbolt.Tx) (err error) {
		going, err = x.forget(tx, how, list)
		return err
	}
	err = x.d.write(forget)
	full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
	if err != nil && !full {
		return nil, err
	}
	var errs []error
	for _, info := range going {
		if err := x.remove(how, info.Digest); err == nil {
			removed = append(removed, info)
		} else if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if full {
		list = nil
		for _, info := range removed {
			list = append(list, info.Digest)
		}
		_ = x.d.write(forget) // there is room now; if not, the records stay
	}
	return removed, errors.Join(errs...)
}

// forget deletes the entries of the index for blobs that may be removed, and returns those that exist.
func (x blobs) forget(tx *bbolt.Tx, how store.Removal, list []modproxy.Digest) (going []store.BlobInfo, err error) {
	for _, digest := range list {
		records := needing(tx, digest)
		if how == store.Collect && len(records) > 0 {
			continue
		}
		for _, r := range records {
			if err := remove(tx, r); err != nil {
				return nil, err
			}
		}
		c := tx.Bucket(needsBucket).Cursor() // remaining entries of damaged records
		for k, _ := c.Seek(digest[:]); bytes.HasPrefix(k, digest[:]); k, _ = c.Seek(digest[:]) {
			if err := c.Delete(); err != nil {
				return nil, err
			}
		}
		if err := tx.Bucket(usesBucket).Delete(digest[:]); err != nil {
			return nil, err
		}
		if info, err := os.Lstat(x.d.blobPath(digest)); err == nil {
			going = append(going, blobInfo(digest, info))
		}
	}
	return going, nil
}

func (x blobs) remove(how store.Removal, digest modproxy.Digest) error {
	name := x.d.blobPath(digest)
	if how == store.ToQuarantine {
		_, err := x.d.setAside(name)
		return err
	}
	if err := os.Remove(name); !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	return os.RemoveAll(name) // a directory, which cannot be a blob
}

// asideTime is the suffix of names in the quarantine.
const asideTime = ".20060102T150405.000000000Z"

// setAside moves a file to the quarantine and returns its name there. An index stays under both names until a new index
// replaces it. The caller holds d.writing.
func (d *Directory) setAside(name string) (aside string, err error) {
	aside = d.path(quarantineName, filepath.Base(name)+time.Now().UTC().Format(asideTime))
	if _, err := os.Lstat(aside); err == nil {
		return "", fmt.Errorf("%s: %w", aside, fs.ErrExist)
	}
	if name != d.path(indexName) || os.Link(name, aside) != nil {
		if err := os.Rename(name, aside); err != nil {
			return "", err
		}
	}
	return aside, d.health.note(errors.Join(d.disk.FlushDir(d.path(quarantineName)), d.disk.FlushDir(filepath.Dir(name))))
}

// Quarantined implements [store.Quarantine].
func (d *Directory) Quarantined(ctx context.Context, age time.Duration) (store.Amount, error) {
	return d.eachAside(ctx, age, func(string) error { return nil })
}

// Purge implements [store.Quarantine].
func (d *Directory) Purge(ctx context.Context, age time.Duration) (store.Amount, error) {
	done, err := d.change(ctx)
	if err != nil {
		return store.Amount{}, err
	}
	defer done()
	root, err := os.OpenRoot(d.dir) // nothing outside the directory is removed, even if its subdirectories are replaced
	if err != nil {
		return store.Amount{}, err
	}
	defer root.Close()
	return d.eachAside(ctx, age, func(name string) error { return root.RemoveAll(filepath.Join(quarantineName, name)) })
}

// eachAside calls f for each file that was quarantined more than age ago, and counts them.
func (d *Directory) eachAside(ctx context.Context, age time.Duration, f func(name string) error) (all store.Amount, err error) {
	entries, err := os.ReadDir(d.path(quarantineName))
	for _, entry := range entries {
		info, failed := entry.Info()
		switch {
		case ctx.Err() != nil:
			return all, errors.Join(err, ctx.Err())
		case errors.Is(failed, fs.ErrNotExist), failed == nil && age > 0 && time.Since(asideAt(info)) < age:
			continue
		case failed == nil:
			failed = f(entry.Name())
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("quarantine: %w", failed))
			continue
		}
		all.Blobs++
		all.Bytes += info.Size()
	}
	return all, err
}

// asideAt returns when a file was quarantined.
func asideAt(info fs.FileInfo) time.Time {
	name := info.Name()
	at, err := time.Parse(asideTime, name[max(0, len(name)-len(asideTime)):])
	if err != nil { // modproxy has not put it there
		return info.ModTime()
	}
	return at
}
