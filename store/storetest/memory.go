package storetest

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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// Memory is a storage in memory. The zero value is empty. All its handles are equivalent.
type Memory struct {
	mu       sync.Mutex
	fail     error // error of every change
	revision uint64
	records  map[store.Ref]memoryRecord
	blobs    map[modproxy.Digest]memoryBlob
	aside    []memoryBlob
}

type memoryRecord struct {
	store.Record
	damaged bool
}

type memoryBlob struct {
	info store.BlobInfo // in aside, Time is when the blob was quarantined
	data []byte
}

// Handle returns a handle on m.
func (m *Memory) Handle() Handle {
	return Handle{
		Records: m.Records(), Blobs: m.Blobs(), Quarantine: m,
		Damage: func(_ *testing.T, ref store.Ref) { m.Damage(ref) },
		Lose:   func(_ *testing.T, d modproxy.Digest) { m.Replace(d, nil) },
	}
}

// Records returns the records of m.
func (m *Memory) Records() store.Records { return memoryRecords{m} }

// Blobs returns the blobs of m.
func (m *Memory) Blobs() store.Blobs { return memoryBlobs{m} }

// Fail makes every later change return err. Nil ends that. The content of a blob is still read.
func (m *Memory) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

// Damage damages an existing record.
func (m *Memory) Damage(ref store.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[ref]
	r.damaged, r.Revision = true, 0
	m.records[ref] = r
}

// Replace replaces the bytes of a blob. If data is nil, it removes the blob and leaves its records.
func (m *Memory) Replace(d modproxy.Digest, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.blobs[d]
	if b.data, b.info.Size = data, int64(len(data)); data == nil {
		delete(m.blobs, d)
	} else {
		m.blobs[d] = b
	}
}

// Evidence returns the contents of the quarantined blobs.
func (m *Memory) Evidence() (list [][]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.aside {
		list = append(list, b.data)
	}
	return list
}

// Quarantined implements [store.Quarantine].
func (m *Memory) Quarantined(_ context.Context, age time.Duration) (all store.Amount, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.aside {
		if age == 0 || time.Since(b.info.Time) > age {
			all.Blobs++
			all.Bytes += b.info.Size
		}
	}
	return all, nil
}

// Purge implements [store.Quarantine].
func (m *Memory) Purge(ctx context.Context, age time.Duration) (store.Amount, error) {
	all, err := m.Quarantined(ctx, age)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.aside = slices.DeleteFunc(m.aside, func(b memoryBlob) bool { return age == 0 || time.Since(b.info.Time) > age })
	return all, err
}

type memoryRecords struct{ m *Memory }

func (x memoryRecords) Get(ctx context.Context, ref store.Ref) (store.Record, error) {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	r, ok := x.m.records[ref]
	switch {
	case !ok:
		return store.Record{}, fs.ErrNotExist
	case r.damaged:
		return store.Record{Ref: ref}, store.ErrDamaged
	}
	return r.clone(), ctx.Err()
}

func (r memoryRecord) clone() store.Record {
	r.Value, r.Needs = bytes.Clone(r.Value), slices.Clone(r.Needs)
	return r.Record
}

func (x memoryRecords) Put(ctx context.Context, r store.Record) (uint64, error) {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	switch {
	case r.Kind == "" || r.Key == "" || len(r.Key) > 1<<10 || len(r.Value) > 64<<20:
		return 0, fmt.Errorf("%w: record %.80q", modproxy.ErrInvalid, r.Ref)
	case x.m.fail != nil:
		return 0, x.m.fail
	case x.m.records[r.Ref].Revision != r.Revision:
		return 0, store.ErrConflict
	}
	for _, d := range r.Needs {
		if _, ok := x.m.blobs[d]; !ok {
			return 0, fmt.Errorf("blob %s: %w", d, fs.ErrNotExist)
		}
	}
	if x.m.records == nil {
		x.m.records = map[store.Ref]memoryRecord{}
	}
	x.m.revision++
	r.Revision = x.m.revision
	x.m.records[r.Ref] = memoryRecord{Record: memoryRecord{Record: r}.clone()}
	return r.Revision, ctx.Err()
}

func (x memoryRecords) Delete(_ context.Context, ref store.Ref, revision uint64) error {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	r, ok := x.m.records[ref]
	switch {
	case x.m.fail != nil:
		return x.m.fail
	case ok && r.Revision != revision:
		return store.ErrConflict
	}
	delete(x.m.records, ref)
	return nil
}

func (x memoryRecords) List(ctx context.Context, kind store.Kind, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		x.m.mu.Lock()
		records := maps.Clone(x.m.records)
		x.m.mu.Unlock()
		refs := slices.SortedFunc(maps.Keys(records), func(a, b store.Ref) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key))
		})
		for _, ref := range refs {
			if kind != "" && ref.Kind != kind || !strings.HasPrefix(ref.Key, prefix) {
				continue
			}
			r, err := records[ref], ctx.Err()
			switch {
			case err != nil:
				yield(store.Record{}, err)
				return
			case r.damaged:
				r, err = memoryRecord{Record: store.Record{Ref: ref}}, store.ErrDamaged
			}
			if !yield(r.clone(), err) {
				return
			}
		}
	}
}

func (x memoryRecords) Needing(_ context.Context, d modproxy.Digest) (list []store.Record, err error) {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	for _, r := range x.m.needing(d) {
		if r.Value = nil; r.damaged {
			r.Needs = nil
		}
		list = append(list, r.clone())
	}
	return list, nil
}

func (m *Memory) needing(d modproxy.Digest) (list []memoryRecord) {
	for _, r := range m.records {
		if slices.Contains(r.Needs, d) {
			list = append(list, r)
		}
	}
	return list
}

type memoryBlobs struct{ m *Memory }

func (x memoryBlobs) Put(ctx context.Context, d modproxy.Digest, r io.Reader) error {
	if _, err := x.Stat(ctx, d); err == nil {
		return nil
	}
	data, err := io.ReadAll(r)
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case x.m.fail != nil:
		return x.m.fail
	case modproxy.Digest(sha256.Sum256(data)) != d:
		return store.ErrDamaged
	case x.m.blobs == nil:
		x.m.blobs = map[modproxy.Digest]memoryBlob{}
	}
	if _, ok := x.m.blobs[d]; !ok {
		now := time.Now()
		x.m.blobs[d] = memoryBlob{store.BlobInfo{Digest: d, Size: int64(len(data)), Time: now, Used: now}, data}
	}
	return nil
}

type openBlob struct{ *bytes.Reader }

func (openBlob) Close() error { return nil }

func (x memoryBlobs) Open(_ context.Context, d modproxy.Digest) (store.Blob, error) {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	b, ok := x.m.blobs[d]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return openBlob{bytes.NewReader(b.data)}, nil
}

func (x memoryBlobs) Stat(_ context.Context, d modproxy.Digest) (store.BlobInfo, error) {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	b, ok := x.m.blobs[d]
	if !ok {
		return store.BlobInfo{}, fs.ErrNotExist
	}
	b.info.Needed = len(x.m.needing(d)) > 0
	return b.info, nil
}

func (x memoryBlobs) Remove(_ context.Context, how store.Removal, list ...modproxy.Digest) (removed []store.BlobInfo, err error) {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	if x.m.fail != nil {
		return nil, x.m.fail
	}
	for _, d := range list {
		needing := x.m.needing(d)
		if how == store.Collect && len(needing) > 0 {
			continue
		}
		for _, r := range needing {
			delete(x.m.records, r.Ref)
		}
		b, ok := x.m.blobs[d]
		if !ok {
			continue
		}
		delete(x.m.blobs, d)
		removed = append(removed, b.info)
		if how == store.ToQuarantine {
			b.info.Time = time.Now()
			x.m.aside = append(x.m.aside, b)
		}
	}
	return removed, nil
}

func (x memoryBlobs) Blobs(ctx context.Context) iter.Seq2[store.BlobInfo, error] {
	return func(yield func(store.BlobInfo, error) bool) {
		x.m.mu.Lock()
		blobs := maps.Clone(x.m.blobs)
		for d, b := range blobs {
			b.info.Needed = len(x.m.needing(d)) > 0
			blobs[d] = b
		}
		x.m.mu.Unlock()
		for _, b := range blobs {
			if err := ctx.Err(); !yield(b.info, err) || err != nil {
				return
			}
		}
	}
}

func (x memoryBlobs) Touch(_ context.Context, used map[modproxy.Digest]time.Time) error {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	for d, at := range used {
		if b, ok := x.m.blobs[d]; ok {
			b.info.Used = at
			x.m.blobs[d] = b
		}
	}
	return x.m.fail
}
