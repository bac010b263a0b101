package disk

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"runtime"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/boltfile"
	"github.com/modproxy/modproxy/store"
)

// records implements [store.Records].
type records struct{ d *Directory }

func (x records) Get(ctx context.Context, ref store.Ref) (r store.Record, err error) {
	err = x.d.view(ctx, func(tx *bbolt.Tx) error {
		r, err = x.d.get(tx, ref)
		return err
	})
	return r, err
}

// get returns a record in a read-only transaction.
func (d *Directory) get(tx *bbolt.Tx, ref store.Ref) (store.Record, error) {
	r, problem := unsealed(ref, nil)
	name := []byte(ref.Key)
	err := d.read(tx, bucketName(ref.Kind), func(c cursor) error {
		k, v, err := c.seek(name)
		if err == nil && bytes.Equal(k, name) {
			r, problem = unsealed(ref, bytes.Clone(v))
		}
		return err
	})
	return r, cmp.Or(err, problem)
}

// get returns a record in a transaction that may write. The value must not be used after the transaction.
func get(tx *bbolt.Tx, ref store.Ref) (store.Record, error) {
	var value []byte
	if b := tx.Bucket(bucketName(ref.Kind)); b != nil {
		value = b.Get([]byte(ref.Key))
	}
	return unsealed(ref, value)
}

// unsealed is like unseal. If value is nil, it returns [fs.ErrNotExist].
func unsealed(ref store.Ref, value []byte) (store.Record, error) {
	if value == nil {
		return store.Record{Ref: ref}, fmt.Errorf("record %s %.80q: %w", ref.Kind, ref.Key, fs.ErrNotExist)
	}
	return unseal(ref, value)
}

// current returns the stored record if it has that revision, else [store.ErrConflict]. A missing or damaged record has
// the revision zero and only a Ref.
func current(tx *bbolt.Tx, ref store.Ref, revision uint64) (store.Record, error) {
	r, _ := get(tx, ref)
	if r.Revision != revision {
		return r, fmt.Errorf("record %s %.80q: %w", ref.Kind, ref.Key, store.ErrConflict)
	}
	return r, nil
}

func (x records) Put(ctx context.Context, r store.Record) (revision uint64, err error) {
	if err := check(r); err != nil {
		return 0, err
	}
	err = x.d.update(ctx, func(tx *bbolt.Tx) error {
		old, err := current(tx, r.Ref, r.Revision)
		if err != nil {
			return err
		}
		for _, digest := range r.Needs {
			if _, err := lstatFile(x.d.blobPath(digest)); err != nil {
				return err
			}
		}
		if revision, err = tx.Bucket(needsBucket).NextSequence(); err != nil {
			return err
		}
		now := r
		now.Revision = revision
		return errors.Join(remove(tx, old), insert(tx, now))
	})
	return revision, err
}

func insert(tx *bbolt.Tx, r store.Record) error {
	b, err := tx.CreateBucketIfNotExists(bucketName(r.Kind))
	if err != nil {
		return err
	}
	for _, digest := range r.Needs {
		if err := tx.Bucket(needsBucket).Put(needKey(digest, r.Ref), nil); err != nil {
			return err
		}
	}
	return b.Put([]byte(r.Key), seal(r))
}

// remove removes a record, which may not exist, and its entries in needsBucket.
func remove(tx *bbolt.Tx, r store.Record) error {
	for _, digest := range r.Needs {
		if err := tx.Bucket(needsBucket).Delete(needKey(digest, r.Ref)); err != nil {
			return err
		}
	}
	b := tx.Bucket(bucketName(r.Kind))
	if b == nil {
		return nil
	}
	if r.Revision == 0 && b.Get([]byte(r.Key)) != nil {
		if err := removeNeeds(tx, r.Ref); err != nil {
			return err
		}
	}
	return b.Delete([]byte(r.Key))
}

// removeNeeds removes the entries of a damaged record in needsBucket. It reads the whole bucket, because the needs in
// the record are lost.
func removeNeeds(tx *bbolt.Tx, ref store.Ref) error {
	needs := tx.Bucket(needsBucket)
	suffix := needKey(modproxy.Digest{}, ref)[len(modproxy.Digest{}):]
	var keys [][]byte
	err := needs.ForEach(func(k, _ []byte) error {
		if len(k) > len(modproxy.Digest{}) && bytes.Equal(k[len(modproxy.Digest{}):], suffix) {
			keys = append(keys, bytes.Clone(k))
		}
		return nil
	})
	for _, k := range keys {
		err = errors.Join(err, needs.Delete(k))
	}
	return err
}

func (x records) Delete(ctx context.Context, ref store.Ref, revision uint64) error {
	return x.d.update(ctx, func(tx *bbolt.Tx) error {
		if _, err := get(tx, ref); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		r, err := current(tx, ref, revision)
		if err != nil {
			return err
		}
		return remove(tx, r)
	})
}

func (x records) Needing(ctx context.Context, d modproxy.Digest) (list []store.Record, err error) {
	err = x.d.view(ctx, func(tx *bbolt.Tx) error {
		list, err = x.d.needing(tx, d)
		return err
	})
	return list, err
}

// needing implements [records.Needing] in a read-only transaction.
func (d *Directory) needing(tx *bbolt.Tx, digest modproxy.Digest) (list []store.Record, err error) {
	err = d.read(tx, needsBucket, func(c cursor) error {
		k, _, err := c.seek(digest[:])
		for ; err == nil && bytes.HasPrefix(k, digest[:]); k, _, err = c.next() {
			kind, key, _ := bytes.Cut(k[len(digest):], []byte{0})
			r, err := d.get(tx, store.Ref{Kind: store.Kind(kind), Key: string(key)})
			switch {
			case errors.Is(err, boltfile.ErrDamaged):
				return err
			case err == nil && slices.Contains(r.Needs, digest), errors.Is(err, store.ErrDamaged):
				r.Value = nil
				list = append(list, r)
			}
		}
		return err
	})
	return list, err
}

// needing implements [records.Needing] in a transaction that may write.
func needing(tx *bbolt.Tx, d modproxy.Digest) (list []store.Record) {
	c := tx.Bucket(needsBucket).Cursor()
	for k, _ := c.Seek(d[:]); bytes.HasPrefix(k, d[:]); k, _ = c.Next() {
		kind, key, _ := bytes.Cut(k[len(d):], []byte{0})
		r, err := get(tx, store.Ref{Kind: store.Kind(kind), Key: string(key)})
		if err == nil && slices.Contains(r.Needs, d) || errors.Is(err, store.ErrDamaged) {
			r.Value = nil
			list = append(list, r)
		}
	}
	return list
}

func (x records) List(ctx context.Context, kind store.Kind, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		kinds, err := []store.Kind{kind}, error(nil)
		if kind == "" {
			kinds, err = x.kinds(ctx)
		}
		for _, kind := range kinds {
			for from := []byte(prefix); from != nil && err == nil; {
				var list []listed
				start := from
				from = nil
				err = x.d.view(ctx, func(tx *bbolt.Tx) error {
					return x.d.read(tx, bucketName(kind), func(c cursor) (err error) {
						list, from, err = batch(c, kind, []byte(prefix), start)
						return err
					})
				})
				for i, r := range list {
					if i%turnAfter == 0 {
						runtime.Gosched()
					}
					if err = ctx.Err(); err != nil {
						break
					} else if !yield(r.Record, r.err) {
						return
					}
				}
			}
		}
		if err != nil {
			yield(store.Record{}, err)
		}
	}
}

type listed struct {
	store.Record
	err error
}

// batch returns records whose keys begin with prefix, starting at from, and the start of the next batch. Records are
// yielded between transactions, so that their consumer may change records.
func batch(c cursor, kind store.Kind, prefix, from []byte) (list []listed, next []byte, err error) {
	const most, mostBytes = 64, 4 << 20
	size := 0
	k, v, err := c.seek(from)
	for ; err == nil && k != nil && bytes.HasPrefix(k, prefix); k, v, err = c.next() {
		if len(list) == most || size > mostBytes {
			return list, bytes.Clone(k), nil
		}
		size += len(v)
		r, err := unseal(store.Ref{Kind: kind, Key: string(k)}, bytes.Clone(v))
		list = append(list, listed{r, err})
	}
	return list, nil, err
}

// kinds returns the kinds that have records, or had some.
func (x records) kinds(ctx context.Context) (list []store.Kind, err error) {
	err = x.d.view(ctx, func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, _ *bbolt.Bucket) error {
			if kind, ok := bytes.CutPrefix(name, recordsPrefix); ok {
				list = append(list, store.Kind(kind))
			}
			return nil
		})
	})
	return list, err
}
