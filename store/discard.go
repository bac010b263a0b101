package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/modproxy/modproxy"
)

// Discarded is a record that [Store.Discard] has deleted.
type Discarded struct {
	Record Record
	Shared []Ref // records that still need some of its blobs
}

// Discard deletes records, pinned or not, and removes the blobs that no other record needs. The result leaves out
// records that do not exist.
//
// Errors: [modproxy.ErrUnavailable] while one of the blobs is being stored, and then no record is deleted;
// [ErrConflict]; that of the context; [StorageError].
func (s *Store) Discard(ctx context.Context, refs ...Ref) (list []Discarded, err error) {
	var going []modproxy.Digest
	for _, ref := range refs {
		r, err := s.Records.Get(ctx, ref)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if errors.Is(err, ErrDamaged) {
			r = Record{Ref: ref} // the blobs that it needs are unknown
		} else if err != nil {
			return nil, failure(ctx, err)
		}
		list = append(list, Discarded{Record: r})
		going = append(going, r.Needs...)
	}
	// Until the end of the removal, no call in this process stores a record that needs these blobs.
	if !s.room.beginRemoval(going...) {
		return nil, fmt.Errorf("%w: a package to be removed is being downloaded: try again", modproxy.ErrUnavailable)
	}
	for i, one := range list {
		if err = s.Records.Delete(ctx, one.Record.Ref, one.Record.Revision); err != nil {
			list = list[:i]
			break
		}
	}
	_, collecting := s.remove(ctx, Collect, going)
	if err = errors.Join(failure(ctx, err), collecting); err != nil {
		return list, err
	}
	for i := range list {
		for _, d := range list[i].Record.Needs {
			s.room.edit(d, func(e *entry) { e.pinned = false }) // its pinned record may be deleted
			by, _, err := s.needing(ctx, d)
			if err != nil {
				return list, err
			}
			list[i].Shared = append(list[i].Shared, by[d]...)
		}
	}
	return list, nil
}
