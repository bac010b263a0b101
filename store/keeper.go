package store

import (
	"context"
	"io"

	"github.com/modproxy/modproxy"
)

// Keeper knows what the records of one kind mean.
type Keeper interface {
	// Verify compares a record with what counts elsewhere. Errors: [ErrDamaged] if it is wrong;
	// [modproxy.ErrChanged] if something else counts by now, which is no damage; another error if that is not
	// known.
	Verify(ctx context.Context, r Record) error
	// Sizes returns how many bytes the blobs have that r needs, in the order of r.Needs, as far as r says.
	// Verify has found nothing.
	Sizes(r Record) []int64
	// VerifyData checks a blob that r needs, whose digest is right.
	VerifyData(ctx context.Context, r Record, d modproxy.Digest, blob io.Reader) error
	// Rebuild returns the records that need a blob, made from its bytes, which may be none of the kind.
	Rebuild(ctx context.Context, d modproxy.Digest, size int64, blob io.Reader) ([]Record, error)
}
