package disk

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy/cache"
)

// listing is a versions record that may go.
type listing struct {
	key, sum []byte // sum is how the record begins
	size     int64
	asked    time.Time
	needed   bool // there are package records of the module
}

// TrimVersions implements [cache.Index]. A record that is damaged counts, and
// stays for [Store.Verify] to find.
func (s *Store) TrimVersions(limit int64) (all cache.Trimmed, err error) {
	over, line, err := s.listings()
	if err != nil {
		return all, err
	}
	over -= limit
	if over <= 0 {
		return all, nil
	}
	slices.SortFunc(line, func(a, b listing) int {
		switch {
		case a.needed != b.needed && a.needed:
			return 1
		case a.needed != b.needed:
			return -1
		}
		return cmp.Or(a.asked.Compare(b.asked), bytes.Compare(a.key, b.key))
	})
	const batch = 1000
	for over > 0 && len(line) > 0 {
		var removed cache.Trimmed
		n := 0
		for left := over; left > 0 && n < min(batch, len(line)); n++ {
			left -= line[n].size
		}
		if err := s.update(func(tx *bbolt.Tx) (err error) {
			removed, err = removeListings(tx.Bucket(versionsBucket), line[:n])
			return err
		}); err != nil {
			return all, err
		}
		line = line[n:]
		over -= removed.Bytes
		all.Documents += removed.Documents
		all.Bytes += removed.Bytes
	}
	return all, nil
}

// listings is how many bytes the versions records have, and which may go.
func (s *Store) listings() (used int64, line []listing, err error) {
	for e, err := range s.each(versionsBucket, nil) {
		if err != nil {
			return 0, nil, err
		}
		size := int64(len(e.key)+len(e.value)) + cache.VersionsOverhead
		used += size
		var h versionsHeader
		if _, err := unseal(e.value, &h); err != nil {
			continue
		}
		line = append(line, listing{
			key: e.key, sum: bytes.Clone(e.value[:bytes.IndexByte(e.value, '\n')]), size: size, asked: h.Asked,
		})
	}
	err = s.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(packagesBucket).Cursor()
		for i := range line {
			k, _ := c.Seek(line[i].key)
			line[i].needed = bytes.HasPrefix(k, line[i].key)
		}
		return nil
	})
	return used, line, err
}

// removeListings removes those that are as they were.
func removeListings(b *bbolt.Bucket, line []listing) (all cache.Trimmed, err error) {
	for _, l := range line {
		if !bytes.HasPrefix(b.Get(l.key), l.sum) {
			continue
		}
		if err := b.Delete(l.key); err != nil {
			return all, err
		}
		all.Documents++
		all.Bytes += l.size
	}
	return all, nil
}
