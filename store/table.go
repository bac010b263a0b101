package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
)

// Table stores one value of type T for each key, as JSON, in the records of one kind. It is safe for concurrent use, and several
// processes may share the records.
//
// Its errors are [modproxy.ErrUnavailable]. A damaged row is not an error: it has the zero value.
type Table[T any] struct {
	Records Records
	Kind    Kind
	// Belongs reports whether a value may have a key. A row with another value is damaged. If Belongs is nil, all values may.
	Belongs func(key string, value T) bool
}

// Row is one value of a [Table].
type Row[T any] struct {
	Key     string
	Value   T    // the zero value if the row does not exist or is damaged
	Exists  bool // also of a damaged row
	Damaged bool

	revision uint64
}

// maxUpdates is how often Update tries to change a row that others change, too.
const maxUpdates = 16

// Get returns the row of a key. If it does not exist, Exists is false.
func (t Table[T]) Get(ctx context.Context, key string) (Row[T], error) {
	rec, err := t.Records.Get(ctx, Ref{Kind: t.Kind, Key: key})
	if errors.Is(err, fs.ErrNotExist) {
		return Row[T]{Key: key}, nil
	}
	rec.Key = key
	return t.row(rec, err)
}

func (t Table[T]) row(rec Record, err error) (Row[T], error) {
	row := Row[T]{Key: rec.Key, Exists: true, revision: rec.Revision}
	switch {
	case errors.Is(err, ErrDamaged):
		row.Damaged, row.revision = true, 0
	case err != nil:
		return row, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	case json.Unmarshal(rec.Value, &row.Value) != nil, t.Belongs != nil && !t.Belongs(rec.Key, row.Value):
		var zero T
		row.Value, row.Damaged = zero, true
	}
	return row, nil
}

// Update stores the row of a key after change has changed it. It calls change again if another caller has changed the
// row meanwhile. stored reports whether the row has the new value, which is possible in spite of an error.
func (t Table[T]) Update(ctx context.Context, key string, change func(*Row[T])) (stored bool, err error) {
	for range maxUpdates {
		row, err := t.Get(ctx, key)
		if err != nil {
			return false, err
		}
		change(&row)
		text, err := json.Marshal(row.Value)
		if err != nil {
			return false, err
		}
		_, err = t.Records.Put(ctx, Record{Ref: Ref{Kind: t.Kind, Key: key}, Value: text, Revision: row.revision})
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err != nil {
			now, errNow := t.Get(ctx, key)
			return errNow != nil || now.revision != row.revision, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
		}
		return true, nil
	}
	return false, fmt.Errorf("%w: the record %s %s was changed by others at every try", modproxy.ErrUnavailable, t.Kind, key)
}

// List yields the rows whose keys begin with prefix, in the order of their keys, with the damaged ones. An error ends the sequence.
func (t Table[T]) List(ctx context.Context, prefix string) iter.Seq2[Row[T], error] {
	return func(yield func(Row[T], error) bool) {
		for rec, err := range t.Records.List(ctx, t.Kind, prefix) {
			row, err := t.row(rec, err)
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// Delete removes a row. If another caller has changed it meanwhile, it stays, and deleted is false.
func (t Table[T]) Delete(ctx context.Context, row Row[T]) (deleted bool, err error) {
	err = t.Records.Delete(ctx, Ref{Kind: t.Kind, Key: row.Key}, row.revision)
	if errors.Is(err, ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	}
	return true, nil
}

// Trim removes the oldest rows by age if the table has more than most rows, until most-spare remain. It returns the
// number of remaining rows. Damaged rows are the oldest ones.
func (t Table[T]) Trim(ctx context.Context, most, spare int, age func(T) time.Time) (left int, err error) {
	type aged struct {
		row Row[T]
		at  time.Time
	}
	var all []aged
	for row, err := range t.List(ctx, "") {
		if err != nil {
			return len(all), err
		}
		at := time.Time{}
		if !row.Damaged {
			at = age(row.Value)
		}
		var zero T
		row.Value = zero // saves memory
		all = append(all, aged{row, at})
	}
	left = len(all)
	if left <= most {
		return left, nil
	}
	slices.SortFunc(all, func(a, b aged) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.row.Key, b.row.Key)) })
	for _, a := range all[:len(all)-most+spare] {
		if _, err := t.Delete(ctx, a.row); err != nil {
			return left, err
		}
		left--
	}
	return left, nil
}
