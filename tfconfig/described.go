package tfconfig

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/modproxy/modproxy/store"
)

// DescriptionKind is the kind of the records of descriptions. The key is the digest of a package and a directory. Records are removed
// like those of [ConfigurationKind].
const DescriptionKind store.Kind = "description"

// described is the value of a record.
type described struct {
	Edition     int          `json:"edition"`
	Description *Description `json:"description,omitempty"`
	Unreadable  string       `json:"unreadable,omitempty"`
}

// Describe describes the module in a directory of a package; dir is empty for the root of the package. If the directory has no module,
// the description is empty. Errors are those of Read.
func (r *Reader) Describe(ctx context.Context, t Tree, dir string) (*Description, error) {
	dir = path.Clean(dir)
	ref := store.Ref{Kind: DescriptionKind, Key: t.digest.String() + "/" + dir}
	if d, err := r.remembered(ctx, ref); d != nil || err != nil {
		return d, err
	}
	give, err := r.describing.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	answer, err := ask(ctx, t, request{Edition: edition, Describe: true, Options: Options{Dir: dir}})
	now := described{Edition: edition}
	if cannot, ok := errors.AsType[*unreadable](err); ok {
		now.Unreadable = cannot.text
	} else if err != nil {
		return nil, err
	} else if now.Description = answer.Description; now.Description == nil {
		return nil, errSilent
	}
	if r.Store != nil && !t.digest.IsZero() {
		r.remember(ctx, ref, now)
	}
	return now.Description, err
}

// remembered returns the stored description under ref, or the stored error. Both are nil if neither is stored.
func (r *Reader) remembered(ctx context.Context, ref store.Ref) (*Description, error) {
	if r.Store == nil {
		return nil, nil
	}
	rec, err := r.Store.Records.Get(ctx, ref)
	if err != nil {
		return nil, nil
	}
	var was described
	switch err := unseal(rec.Value, 2*maxDescription, &was); {
	case err != nil || was.Edition != edition:
		return nil, nil
	case was.Unreadable != "":
		return nil, &unreadable{was.Unreadable}
	}
	return was.Description, nil
}

// remember stores a result and ignores errors of the store.
func (r *Reader) remember(ctx context.Context, ref store.Ref, now described) {
	was, _ := r.Store.Records.Get(ctx, ref)
	if value, err := seal(now, time.Now()); err == nil {
		r.put(ctx, store.Record{Ref: ref, Value: value, Revision: was.Revision})
	}
}
