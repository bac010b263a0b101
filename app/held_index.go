package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/disk"
	"github.com/modproxy/modproxy/ledger"
)

// heldIndex is an index as far as it agrees with the ledger. The ledger is
// trusted, and the index is not: a package record whose sum is not the one that
// counts is as if it were not there, whether the index was tampered with, comes
// from another backup, or somebody has accepted other content since.
type heldIndex struct {
	store *disk.Store
	book  ledger.Ledger
	// disagrees is told of such a record.
	disagrees func(m modproxy.Module, version string, err error)
	// behind is told of a record that was not in the ledger, and is from now on.
	behind func(m modproxy.Module, version string)
}

var _ cache.Index = (*heldIndex)(nil)

// Versions implements [cache.Index].
func (x *heldIndex) Versions(m modproxy.Module) (cache.VersionsRecord, error) {
	return x.store.Versions(m)
}

// PutVersions implements [cache.Index].
func (x *heldIndex) PutVersions(m modproxy.Module, rec cache.VersionsRecord) error {
	return x.store.PutVersions(m, rec)
}

// TrimVersions implements [cache.Index].
func (x *heldIndex) TrimVersions(limit int64) (cache.Trimmed, error) {
	return x.store.TrimVersions(limit)
}

// Package implements [cache.Index].
func (x *heldIndex) Package(m modproxy.Module, version string) (cache.PackageRecord, error) {
	rec, err := x.store.Package(m, version)
	if err == nil {
		err = x.hold(m, version, rec)
	}
	if err != nil {
		return cache.PackageRecord{}, err
	}
	return rec, nil
}

// PutPackage implements [cache.Index]. A record that the ledger disagrees with
// makes room for one with which it agrees.
func (x *heldIndex) PutPackage(m modproxy.Module, version string, rec cache.PackageRecord) error {
	changed := x.store.PutPackage(m, version, rec)
	if !errors.Is(changed, modproxy.ErrChanged) {
		return changed
	}
	if err := x.agree(m, version, rec); err != nil {
		return err
	}
	old, err := x.store.Package(m, version)
	if err != nil {
		return err
	}
	return x.store.ReplacePackage(m, version, old.Sum, rec)
}

// Packages implements [cache.Index].
func (x *heldIndex) Packages(m modproxy.Module) iter.Seq2[cache.Kept, error] {
	return func(yield func(cache.Kept, error) bool) {
		for kept, err := range x.store.Packages(m) {
			if err == nil {
				err = x.hold(kept.Module, kept.Version, kept.Record)
			}
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if !yield(kept, err) {
				return
			}
		}
	}
}

// hold is agree, with [fs.ErrNotExist] for disagreement. A version that is kept
// and not recorded is recorded: it was kept before there was a ledger, or this one
// comes from an older backup.
func (x *heldIndex) hold(m modproxy.Module, version string, rec cache.PackageRecord) error {
	err := x.agree(m, version, rec)
	if errors.Is(err, fs.ErrNotExist) {
		if err = x.book.Add(context.Background(), recordOf(m, version, rec)); err == nil {
			x.behind(m, version)
			return nil
		}
	}
	if errors.Is(err, modproxy.ErrChanged) {
		x.disagrees(m, version, err)
		return fmt.Errorf("%w: %v", fs.ErrNotExist, err)
	}
	return err
}

// agree is nil when rec has the sum and directory that count, and [modproxy.ErrChanged] when it
// has another; [fs.ErrNotExist] when the version is not recorded.
func (x *heldIndex) agree(m modproxy.Module, version string, rec cache.PackageRecord) error {
	counts, err := x.book.Lookup(context.Background(), m.At(version))
	switch {
	case err != nil:
		return err
	case counts.Sum != rec.Sum:
		return fmt.Errorf("%w: kept as %s, recorded as %s", modproxy.ErrChanged, rec.Sum, counts.Sum)
	case !counts.Is(rec.Sum, rec.Subdir):
		return fmt.Errorf("%w: kept with the directory %s, recorded with %s", modproxy.ErrChanged, ledger.Subdir(rec.Subdir), counts.Subdir)
	}
	return nil
}

// recordOf is the first record of a version whose package is kept.
func recordOf(m modproxy.Module, version string, rec cache.PackageRecord) ledger.Record {
	seen := rec.Fetched
	if seen.IsZero() {
		seen = time.Now()
	}
	return ledger.Record{ModuleVersion: m.At(version), Sum: rec.Sum, Subdir: ledger.Subdir(rec.Subdir), Source: rec.Source, Time: seen}
}
