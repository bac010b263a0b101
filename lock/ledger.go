package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/modproxy/modproxy"
)

// A Ledger knows what versions are.
type Ledger interface {
	// Lookup returns the record that counts for a version, or [fs.ErrNotExist].
	Lookup(ctx context.Context, v modproxy.ModuleVersion) (modproxy.Record, error)
}

// CheckLedger compares entries with a ledger. Every error is about one version: a
// [Different], or why the ledger does not answer.
func CheckLedger(ctx context.Context, entries []Entry, ledger Ledger) (errs []error) {
	for _, e := range entries {
		if err := checkRecord(ctx, e, ledger); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func checkRecord(ctx context.Context, e Entry, ledger Ledger) error {
	v := e.ModuleVersion
	recorded, err := ledger.Lookup(ctx, v)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return different(v, "it is %s here, and the ledger has no record of it", e.Sum)
	case err != nil:
		return fmt.Errorf("%s: ledger: %w", v, err)
	case recorded.Sum != e.Sum:
		return different(v, "it is %s here, and %s in the ledger", e.Sum, recorded.Sum)
	case !recorded.Is(e.Sum, e.Subdir):
		subdir := e.Subdir
		if subdir == "" {
			subdir = "."
		}
		return different(v, "it is the directory %s here, and %s in the ledger", subdir, recorded.Subdir)
	}
	return nil
}
