package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// The buckets of the index. Their names contain the version of their format.
//
// The records of a kind are in a bucket of their own, under their keys. The name of the bucket is recordsPrefix and the
// kind. A value is the concatenation of the SHA-256 of the kind, the key and the rest of the value; the revision; the
// number of needs; the needs; and the record's value.
//
// needsBucket has an empty value for each need of each record. The key is the digest, the kind, NUL, and the record's
// key. The bucket has no other entries: [records.Inspect] compares it with the records. If they differ, the records
// count. The sequence of the bucket is the last revision.
//
// usesBucket has the last use of each blob under its digest, in Unix milliseconds.
var (
	recordsPrefix = []byte("v1/records/")
	needsBucket   = []byte("v1/needs")
	usesBucket    = []byte("v1/uses")
)

func makeBuckets(tx *bbolt.Tx) error {
	for _, name := range [][]byte{needsBucket, usesBucket} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	// No revision is used twice, even if an index was lost that contained it.
	return tx.Bucket(needsBucket).SetSequence(uint64(time.Now().UnixNano()))
}

func bucketName(kind store.Kind) []byte { return append(bytes.Clone(recordsPrefix), kind...) }

func check(r store.Record) error {
	if r.Kind != "" && len(r.Kind) <= 255 && !strings.ContainsRune(string(r.Kind), 0) &&
		r.Key != "" && len(r.Key) <= 1<<10 && len(r.Value) <= 64<<20 {
		return nil
	}
	return fmt.Errorf("%w: record %.80q %.80q of %d bytes is out of bounds", modproxy.ErrInvalid, r.Kind, r.Key, len(r.Value))
}

// seal returns the value of a record in its bucket.
func seal(r store.Record) []byte {
	b := make([]byte, sha256.Size, sha256.Size+12+len(r.Needs)*len(modproxy.Digest{})+len(r.Value))
	b = binary.BigEndian.AppendUint64(b, r.Revision)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Needs)))
	for _, d := range r.Needs {
		b = append(b, d[:]...)
	}
	b = append(b, r.Value...)
	copy(b, sealSum(r.Ref, b[sha256.Size:]))
	return b
}

func sealSum(ref store.Ref, rest []byte) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%d\x00%s", ref.Kind, len(ref.Key), ref.Key)
	h.Write(rest)
	return h.Sum(nil)
}

// unseal is the inverse of seal. The value of the record is a part of b.
func unseal(ref store.Ref, b []byte) (store.Record, error) {
	damaged := store.Record{Ref: ref}
	const digest = len(modproxy.Digest{})
	if len(b) < sha256.Size+12 || !bytes.Equal(b[:sha256.Size], sealSum(ref, b[sha256.Size:])) {
		return damaged, fmt.Errorf("record %s %.80q: %w", ref.Kind, ref.Key, store.ErrDamaged)
	}
	b = b[sha256.Size:]
	r := store.Record{Ref: ref, Revision: binary.BigEndian.Uint64(b)}
	n := int(binary.BigEndian.Uint32(b[8:]))
	for b = b[12:]; n > 0; n-- {
		r.Needs = append(r.Needs, modproxy.Digest(b[:digest]))
		b = b[digest:]
	}
	r.Value = b
	return r, nil
}

func needKey(d modproxy.Digest, ref store.Ref) []byte {
	k := append(d[:len(d):len(d)], ref.Kind...)
	return append(append(k, 0), ref.Key...)
}
