package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"os"
	"runtime"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/boltfile"
	"github.com/modproxy/modproxy/store"
)

var errNoBuckets = errors.New("is empty")

// inspection is the result of a walk through an index. The index contains twice which record needs which blob: in the
// record and in needsBucket. If the two differ, records were lost.
type inspection struct {
	damaged     int // records that differ from what was written
	first       store.Ref
	said, noted tally // needs in records, and needs in needsBucket
	revision    uint64
	sequence    uint64
	buckets     int      // number of buckets found that every index has
	kinds       int      // number of buckets of records
	foreign     []string // names of other buckets
}

// tally is a sum of hashes of keys, which does not depend on their order.
type tally struct {
	n    int
	a, b uint64
}

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func (t *tally) add(key []byte) {
	t.n++
	t.a += maphash.Bytes(seeds[0], key)
	t.b += maphash.Bytes(seeds[1], key)
}

// inspect walks through an index and returns the error of the walk.
func inspect(ctx context.Context, f *boltfile.File) (*inspection, error) {
	in := &inspection{}
	return in, f.Walk(ctx, boltfile.Visitor{
		Bucket: func(name []byte, sequence uint64) error {
			switch {
			case bytes.Equal(name, needsBucket):
				in.sequence = sequence
				in.buckets++
			case bytes.Equal(name, usesBucket):
				in.buckets++
			case bytes.HasPrefix(name, recordsPrefix):
				in.kinds++
			default:
				in.foreign = append(in.foreign, string(name))
			}
			return nil
		},
		Entry: func(bucket, key, value []byte) error {
			in.add(bucket, key, value)
			return nil
		},
	})
}

// inspectFile returns why an index must not be used, or nil. No process writes to the index meanwhile.
func (d *Directory) inspectFile(ctx context.Context, index *os.File) error {
	info, err := index.Stat()
	if err != nil {
		return err
	}
	pages, err := boltfile.Open(index, info.Size())
	var found *inspection
	if err == nil {
		found, err = inspect(ctx, pages)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return d.refuse("is %w", err)
	}
	if remedy, problem := found.damage(); problem != nil {
		return &indexError{d.index, problem, remedy}
	}
	return nil
}

// Check returns a remedy for an index that [Open] would refuse, and the reason why. problem is nil if the index is sound, and if another
// process has it open. Check changes nothing.
func Check(ctx context.Context, dir string) (remedy string, problem error) {
	d := newDirectory(dir)
	err := d.readLayout()
	if err == nil {
		_, err = d.lookAtIndex(ctx)
	}
	damage, isDamage := errors.AsType[*indexError](err)
	switch {
	case isDamage:
		return damage.remedy, damage.problem
	case errors.Is(err, errHeld):
		return "", nil
	}
	return remedyIndex, err
}

// HasBlobs reports whether a directory stores a blob.
func HasBlobs(dir string) bool { return newDirectory(dir).hasBlobs() }

func (in *inspection) add(bucket, key, value []byte) {
	if bytes.Equal(bucket, needsBucket) {
		in.noted.add(key)
		return
	}
	ref, ok := refOf(bucket, key)
	if !ok {
		return
	}
	r, err := unseal(ref, value)
	if err != nil {
		if in.damaged++; in.damaged == 1 {
			in.first = ref
		}
		return
	}
	in.revision = max(in.revision, r.Revision)
	for _, d := range r.Needs {
		in.said.add(needKey(d, ref))
	}
}

// refOf returns the record of a key. It returns false if the bucket does not contain records.
func refOf(bucket, key []byte) (store.Ref, bool) {
	kind, ok := bytes.CutPrefix(bucket, recordsPrefix)
	return store.Ref{Kind: store.Kind(kind), Key: string(key)}, ok
}

// damage returns why the index must not be used, and a remedy. problem is nil if the index is sound.
func (in *inspection) damage() (remedy string, problem error) {
	switch {
	case in.buckets == 0 && in.kinds == 0 && len(in.foreign) == 0:
		return remedyIndex, errNoBuckets
	case in.buckets < 2:
		return remedyIndex, errors.New("was not written by modproxy")
	case len(in.foreign) > 0:
		return remedyIndex, fmt.Errorf("is damaged: modproxy writes no bucket %.80q", in.foreign[0])
	case in.sequence < in.revision:
		return remedyIndex, errors.New("is damaged: it would use revisions of records again")
	case in.damaged > 0:
		return remedyRecords, fmt.Errorf("is damaged: %d records differ from what was written, the first one is %s %.80q", in.damaged, in.first.Kind, in.first.Key)
	case in.said != in.noted:
		return remedyRecords, fmt.Errorf("is damaged: records need %d packages, and the index lists %d: records are lost", in.said.n, in.noted.n)
	}
	return "", nil
}

// Inspect implements [store.Inspector]. It reads the pages of the index without bbolt, in a transaction that protects
// them from changes.
func (x records) Inspect(ctx context.Context) (out store.Inspection, err error) {
	file, err := os.Open(x.d.index)
	if err != nil {
		return out, err
	}
	defer file.Close()
	err = x.d.viewPages(ctx, file, func(f *boltfile.File) error {
		in, err := inspect(ctx, f)
		if errors.Is(err, boltfile.ErrDamaged) {
			out.Damage = x.d.health.note(x.d.refuse("is %w", err))
			return nil
		}
		if err == nil && in.said != in.noted {
			out.Lost, err = lost(ctx, f)
		}
		return err
	})
	return out, err
}

// viewPages calls f with the pages of a transaction.
func (d *Directory) viewPages(ctx context.Context, file *os.File, f func(*boltfile.File) error) error {
	for range 100 {
		found := false
		err := d.view(ctx, func(tx *bbolt.Tx) error {
			info, err := file.Stat()
			if err != nil {
				return err
			}
			pages := boltfile.OpenAt(file, info.Size(), uint64(tx.ID()))
			if pages == nil { // two other transactions were committed in this moment
				return nil
			}
			found = true
			return f(pages)
		})
		if err != nil || found {
			return err
		}
	}
	return d.health.note(d.refuse("is damaged: no meta page is of its last transaction"))
}

// lost returns the needs that are only in a record or only in needsBucket.
func lost(ctx context.Context, f *boltfile.File) (list []store.Loss, err error) {
	noted := map[string]bool{}
	err = f.Walk(ctx, boltfile.Visitor{Entry: func(bucket, key, _ []byte) error {
		if bytes.Equal(bucket, needsBucket) {
			noted[string(key)] = true
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	damaged := map[store.Ref]bool{} // List returns them
	err = f.Walk(ctx, boltfile.Visitor{Entry: func(bucket, key, value []byte) error {
		ref, ok := refOf(bucket, key)
		if !ok {
			return nil
		}
		r, err := unseal(ref, value)
		if err != nil {
			damaged[ref] = true
			return nil
		}
		for _, d := range r.Needs {
			if need := string(needKey(d, ref)); noted[need] {
				delete(noted, need)
			} else {
				list = append(list, store.Loss{Ref: ref, Digest: d, Present: true})
			}
		}
		return nil
	}})
	for need := range noted {
		if ref, d, ok := needOf([]byte(need)); ok && !damaged[ref] {
			list = append(list, store.Loss{Ref: ref, Digest: d})
		}
	}
	return list, err
}

// Mend implements [store.Inspector].
func (x records) Mend(ctx context.Context, list []store.Loss) error {
	return x.d.update(ctx, func(tx *bbolt.Tx) error {
		needs := tx.Bucket(needsBucket)
		for _, loss := range list {
			r, err := get(tx, loss.Ref)
			if errors.Is(err, store.ErrDamaged) {
				continue
			}
			change := needs.Delete
			if slices.Contains(r.Needs, loss.Digest) {
				change = func(key []byte) error { return needs.Put(key, nil) }
			}
			if err := change(needKey(loss.Digest, loss.Ref)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Needed implements [store.Inspector].
func (x records) Needed(ctx context.Context) iter.Seq2[modproxy.Digest, error] {
	return func(yield func(modproxy.Digest, error) bool) {
		const most = 1024 // digests per transaction
		var err error
		for from := []byte{}; from != nil && err == nil; {
			var list []modproxy.Digest
			err = x.d.view(ctx, func(tx *bbolt.Tx) error {
				list, from = neededFrom(tx.Bucket(needsBucket).Cursor(), from, most)
				return nil
			})
			for i, d := range list {
				if i%turnAfter == 0 {
					runtime.Gosched()
				}
				if !yield(d, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(modproxy.Digest{}, err)
		}
	}
}

// neededFrom returns up to most different digests, starting at a key, and the key after them. next is nil at the end.
func neededFrom(c *bbolt.Cursor, from []byte, most int) (list []modproxy.Digest, next []byte) {
	for k, _ := c.Seek(from); k != nil; k, _ = c.Next() {
		_, d, ok := needOf(k)
		switch {
		case !ok, len(list) > 0 && list[len(list)-1] == d:
		case len(list) == most:
			return list, bytes.Clone(k)
		default:
			list = append(list, d)
		}
	}
	return list, nil
}

// needOf is the inverse of needKey.
func needOf(key []byte) (ref store.Ref, d modproxy.Digest, ok bool) {
	if len(key) <= len(d) {
		return ref, d, false
	}
	kind, name, ok := strings.Cut(string(key[len(d):]), "\x00")
	return store.Ref{Kind: store.Kind(kind), Key: name}, modproxy.Digest(key[:len(d)]), ok
}
