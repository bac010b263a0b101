package disk

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// bare are the buckets whose records need no blob.
var bare = [][]byte{versionsBucket, usesBucket, aboutBucket}

// References yields every blob that a record in the index needs, of whatever kind the
// record is. Records of a kind that is not known may need any blob: the error says
// so, and ends the sequence.
func (s *Store) References() iter.Seq2[cache.Reference, error] {
	return func(yield func(cache.Reference, error) bool) {
		err := s.view(func(tx *bbolt.Tx) error {
			return tx.ForEach(func(name []byte, _ *bbolt.Bucket) error {
				known := append([][]byte{packagesBucket}, bare...)
				if !slices.ContainsFunc(known, func(b []byte) bool { return bytes.Equal(b, name) }) {
					return fmt.Errorf("the index has records of a kind that this modproxy does not know (%q): use the modproxy that wrote them", name)
				}
				return nil
			})
		})
		if err != nil {
			yield(cache.Reference{By: s.path(indexName)}, err)
			return
		}
		cache.ReferencesOf(s.Packages(modproxy.Module{}))(yield)
	}
}
