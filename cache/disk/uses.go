package disk

import (
	"encoding/binary"
	"hash/crc32"
	"io/fs"
	"iter"
	"time"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// usesBucket has, by its digest, of each blob: a byte that is 1 when it was
// evicted, eight with when it was last used in Unix milliseconds, and the CRC-32
// of these and the digest.
var usesBucket = []byte("v1/uses")

const useSize = 1 + 8 + 4

func sealUse(u cache.Use) []byte {
	value := make([]byte, 1, useSize)
	if u.Evicted {
		value[0] = 1
	}
	value = binary.BigEndian.AppendUint64(value, uint64(u.Last.UnixMilli()))
	return binary.BigEndian.AppendUint32(value, useSum(u.Digest, value))
}

func unsealUse(key, value []byte) (u cache.Use, err error) {
	if len(key) != len(u.Digest) || len(value) != useSize {
		return u, errDamaged
	}
	copy(u.Digest[:], key)
	rest := value[:useSize-4]
	if binary.BigEndian.Uint32(value[useSize-4:]) != useSum(u.Digest, rest) {
		return u, errDamaged
	}
	u.Evicted = value[0] == 1
	u.Last = time.UnixMilli(int64(binary.BigEndian.Uint64(value[1:])))
	return u, nil
}

func useSum(d modproxy.Digest, value []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE(d[:]), crc32.IEEETable, value)
}

// PutUses implements [cache.Uses].
func (s *Store) PutUses(uses []cache.Use) error {
	if len(uses) == 0 {
		return nil
	}
	return s.update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(usesBucket) // an older index has none
		if err != nil {
			return err
		}
		for _, u := range uses {
			if err := b.Put(u.Digest[:], sealUse(u)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Uses implements [cache.Uses].
func (s *Store) Uses() iter.Seq2[cache.Use, error] {
	return func(yield func(cache.Use, error) bool) {
		var uses []cache.Use
		var errs []error
		err := s.view(func(tx *bbolt.Tx) error {
			b := tx.Bucket(usesBucket)
			if b == nil {
				return nil
			}
			return b.ForEach(func(k, v []byte) error {
				u, err := unsealUse(k, v)
				uses, errs = append(uses, u), append(errs, err)
				return nil
			})
		})
		if err != nil {
			uses, errs = append(uses, cache.Use{}), append(errs, err)
		}
		for i, u := range uses {
			if !yield(u, errs[i]) {
				return
			}
		}
	}
}

// useOf is the use of one blob; [fs.ErrNotExist] when there is none.
func (s *Store) useOf(d modproxy.Digest) (u cache.Use, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		var value []byte
		if b := tx.Bucket(usesBucket); b != nil {
			value = b.Get(d[:])
		}
		if value == nil {
			return fs.ErrNotExist
		}
		u, err = unsealUse(d[:], value)
		return err
	})
	return u, err
}
