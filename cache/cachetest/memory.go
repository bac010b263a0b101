package cachetest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// MemoryIndex is an index in memory. Its zero value is empty.
type MemoryIndex struct {
	mu       sync.Mutex
	fail     error
	versions map[modproxy.Module]cache.VersionsRecord
	packages map[version]cache.PackageRecord
}

type version struct {
	modproxy.Module
	version string
}

// Fail makes every method fail from now on; nil ends that.
func (x *MemoryIndex) Fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fail = err
}

// Versions implements [cache.Index].
func (x *MemoryIndex) Versions(m modproxy.Module) (cache.VersionsRecord, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	rec, ok := x.versions[m]
	rec.Document = bytes.Clone(rec.Document)
	return rec, x.found(ok)
}

func (x *MemoryIndex) found(ok bool) error {
	if x.fail == nil && !ok {
		return fs.ErrNotExist
	}
	return x.fail
}

// PutVersions implements [cache.Index].
func (x *MemoryIndex) PutVersions(m modproxy.Module, rec cache.VersionsRecord) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fail != nil {
		return x.fail
	}
	if x.versions == nil {
		x.versions = map[modproxy.Module]cache.VersionsRecord{}
	}
	rec.Document = bytes.Clone(rec.Document)
	x.versions[m] = rec
	return nil
}

// TrimVersions implements [cache.Index].
func (x *MemoryIndex) TrimVersions(limit int64) (all cache.Trimmed, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fail != nil {
		return all, x.fail
	}
	with := map[modproxy.Module]int{}
	for k := range x.packages {
		with[k.Module] = 1
	}
	var used int64
	for _, rec := range x.versions {
		used += int64(len(rec.Document)) + cache.VersionsOverhead
	}
	line := slices.SortedFunc(maps.Keys(x.versions), func(a, b modproxy.Module) int {
		return cmp.Or(cmp.Compare(with[a], with[b]), x.versions[a].Asked.Compare(x.versions[b].Asked))
	})
	for _, m := range line {
		if used <= limit {
			break
		}
		size := int64(len(x.versions[m].Document)) + cache.VersionsOverhead
		delete(x.versions, m)
		used -= size
		all.Documents++
		all.Bytes += size
	}
	return all, nil
}

// Package implements [cache.Index].
func (x *MemoryIndex) Package(m modproxy.Module, v string) (cache.PackageRecord, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	rec, ok := x.packages[version{m, v}]
	return rec, x.found(ok)
}

// PutPackage implements [cache.Index].
func (x *MemoryIndex) PutPackage(m modproxy.Module, v string, rec cache.PackageRecord) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	old, ok := x.packages[version{m, v}]
	switch {
	case x.fail != nil:
		return x.fail
	case ok && old.Sum != rec.Sum:
		return fmt.Errorf("%w: kept as %s, not %s", modproxy.ErrChanged, old.Sum, rec.Sum)
	case x.packages == nil:
		x.packages = map[version]cache.PackageRecord{}
	}
	x.packages[version{m, v}] = rec
	return nil
}

// Packages implements [cache.Index].
func (x *MemoryIndex) Packages(m modproxy.Module) iter.Seq2[cache.Kept, error] {
	return func(yield func(cache.Kept, error) bool) {
		x.mu.Lock()
		packages, err := maps.Clone(x.packages), x.fail
		x.mu.Unlock()
		if err != nil {
			yield(cache.Kept{}, err)
			return
		}
		keys := slices.SortedFunc(maps.Keys(packages), func(a, b version) int {
			return cmp.Or(cmp.Compare(a.Module.String(), b.Module.String()), cmp.Compare(a.version, b.version))
		})
		for _, k := range keys {
			if m != (modproxy.Module{}) && k.Module != m {
				continue
			}
			if !yield(cache.Kept{Module: k.Module, Version: k.version, Record: packages[k]}, nil) {
				return
			}
		}
	}
}

// MemoryBlobs are blobs in memory. The zero value is empty.
type MemoryBlobs struct {
	mu         sync.Mutex
	fail       error
	blobs      map[modproxy.Digest][]byte
	times      map[modproxy.Digest]time.Time
	quarantine [][]byte
}

// Fail makes Put fail from now on, after it has read; nil ends that.
func (b *MemoryBlobs) Fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = err
}

// Replace puts other bytes in a blob's place; nil takes the blob away.
func (b *MemoryBlobs) Replace(d modproxy.Digest, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if data == nil {
		delete(b.blobs, d)
		return
	}
	b.blobs[d] = data
}

// Quarantined are the blobs that were set aside.
func (b *MemoryBlobs) Quarantined() [][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.quarantine)
}

// Put implements [cache.Blobs].
func (b *MemoryBlobs) Put(ctx context.Context, d modproxy.Digest, r io.Reader) error {
	if _, err := b.Stat(d); err == nil {
		return nil
	}
	data, err := io.ReadAll(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case b.fail != nil:
		return b.fail
	case modproxy.Digest(sha256.Sum256(data)) != d:
		return cache.ErrDamaged
	case b.blobs == nil:
		b.blobs, b.times = map[modproxy.Digest][]byte{}, map[modproxy.Digest]time.Time{}
	}
	b.blobs[d], b.times[d] = data, time.Now()
	return nil
}

type blob struct{ *bytes.Reader }

func (blob) Close() error { return nil }

// Open implements [cache.Blobs].
func (b *MemoryBlobs) Open(d modproxy.Digest) (cache.Blob, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.blobs[d]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return blob{bytes.NewReader(data)}, nil
}

// Stat implements [cache.Blobs].
func (b *MemoryBlobs) Stat(d modproxy.Digest) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.blobs[d]
	if !ok {
		return 0, fs.ErrNotExist
	}
	return int64(len(data)), nil
}

// Quarantine implements [cache.Blobs].
func (b *MemoryBlobs) Quarantine(d modproxy.Digest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.blobs[d]
	if !ok {
		return fs.ErrNotExist
	}
	b.quarantine = append(b.quarantine, data)
	delete(b.blobs, d)
	return nil
}

// Remove implements [cache.Blobs].
func (b *MemoryBlobs) Remove(d modproxy.Digest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.blobs[d]; !ok {
		return fs.ErrNotExist
	}
	delete(b.blobs, d)
	return nil
}

// All implements [cache.Blobs].
func (b *MemoryBlobs) All() iter.Seq2[cache.BlobInfo, error] {
	return func(yield func(cache.BlobInfo, error) bool) {
		b.mu.Lock()
		var all []cache.BlobInfo
		for d, data := range b.blobs {
			all = append(all, cache.BlobInfo{Digest: d, Size: int64(len(data)), Time: b.times[d]})
		}
		b.mu.Unlock()
		for _, info := range all {
			if !yield(info, nil) {
				return
			}
		}
	}
}
