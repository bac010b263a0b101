package store

import (
	"context"
	"io"

	"github.com/modproxy/modproxy"
)

// Keeper knows what the records of one kind mean.
type Keeper interface {
	// Verify checks a record without its blobs.
	Verify(ctx context.Context, r Record) error
	// VerifyData checks a blob that r needs, whose digest is right.
	VerifyData(ctx context.Context, r Record, d modproxy.Digest, blob io.Reader) error
	// Rebuild makes the records anew that need a blob, from its bytes.
	Rebuild(ctx context.Context, d modproxy.Digest, size int64, blob io.Reader) ([]Record, error)
}
