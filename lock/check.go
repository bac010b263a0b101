package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/modproxy/modproxy"
)

// Different is the error for a version that is not as it should be. It is [modproxy.ErrChanged].
type Different struct {
	modproxy.ModuleVersion
	What string // what is wrong
}

func (d *Different) Error() string { return d.ModuleVersion.String() + ": " + d.What }

// Unwrap returns [modproxy.ErrChanged].
func (d *Different) Unwrap() error { return modproxy.ErrChanged }

func different(v modproxy.ModuleVersion, format string, args ...any) error {
	return &Different{v, fmt.Sprintf(format, args...)}
}

// group returns the calls of each version, and the versions in order.
func group(calls []Call) ([]modproxy.ModuleVersion, map[modproxy.ModuleVersion][]Call) {
	by := map[modproxy.ModuleVersion][]Call{}
	for _, c := range calls {
		by[c.ModuleVersion] = append(by[c.ModuleVersion], c)
	}
	return slices.SortedFunc(maps.Keys(by), func(a, b modproxy.ModuleVersion) int {
		return cmp.Or(cmp.Compare(a.Module.String(), b.Module.String()), cmp.Compare(a.Version, b.Version))
	}), by
}

// Make returns entries for what is installed. Every error is about one version: a [Different] when its copies are not the
// same, or what else is wrong with it.
func Make(calls []Call) (entries []Entry, errs []error) {
	versions, by := group(calls)
	for _, v := range versions {
		e := Entry{ModuleVersion: v, Subdir: by[v][0].Subdir}
		var err error
		if e.Sum, err = compare(e, by[v]); err != nil {
			errs = append(errs, err)
			continue
		}
		entries = append(entries, e)
	}
	return entries, errs
}

// Check compares what is installed with entries. Every error is about one version: a [Different] when it is not the same,
// is missing, or is one too many, or what else is wrong with it.
func Check(entries []Entry, calls []Call) (errs []error) {
	locked := map[modproxy.ModuleVersion]Entry{}
	for _, e := range entries {
		locked[e.ModuleVersion] = e
	}
	versions, by := group(calls)
	for _, v := range versions {
		if e, ok := locked[v]; !ok {
			more := ""
			if n := len(by[v]) - 1; n > 0 {
				more = fmt.Sprintf(" and %d more", n)
			}
			errs = append(errs, different(v, "it is installed (module %s%s), and not locked", by[v][0].Key, more))
		} else if _, err := compare(e, by[v]); err != nil {
			errs = append(errs, err)
		}
		delete(locked, v)
	}
	for _, e := range entries {
		if _, ok := locked[e.ModuleVersion]; ok {
			errs = append(errs, different(e.ModuleVersion, "it is locked as %s, and not installed", e.Sum))
			delete(locked, e.ModuleVersion)
		}
	}
	return errs
}

// compare compares the directories of the calls of one version with want, or, when that has no sum, with each other. It
// returns the sum of the whole package.
func compare(want Entry, calls []Call) (modproxy.Sum, error) {
	trees := make([]*tree, len(calls))
	var whole *tree
	for i, c := range calls {
		t, err := readTree(c.Package)
		if err != nil {
			return "", fmt.Errorf("%s: module %s: %w", want.ModuleVersion, c.Key, err)
		}
		trees[i] = t
		// The whole one is that which is wanted, or else the one with the most files.
		if want.Sum == "" && (whole == nil || len(t.names) > len(whole.names)) || want.Sum != "" && t.sum == want.Sum {
			whole = t
		}
	}
	if whole == nil {
		return "", different(want.ModuleVersion, "on disk it is %s, in %s; locked is %s", trees[0].sum, trees[0].dir, want.Sum)
	}
	copied, err := whole.copied()
	if err != nil {
		return "", err
	}
	for _, t := range trees {
		if t.sum != whole.sum && t.sum != copied {
			return "", different(want.ModuleVersion, "on disk it is %s, in %s; it is %s in %s", t.sum, t.dir, whole.sum, whole.dir)
		}
	}
	for _, c := range calls {
		if c.Subdir != want.Subdir {
			return "", different(want.ModuleVersion, "module %s is in the directory %q of its package; want %q", c.Key, c.Subdir, want.Subdir)
		}
	}
	return whole.sum, nil
}

// A Ledger knows what versions are.
type Ledger interface {
	// Lookup returns the record that counts for a version, or [fs.ErrNotExist].
	Lookup(ctx context.Context, v modproxy.ModuleVersion) (modproxy.Record, error)
}

// CheckLedger compares entries with a ledger. Every error is about one version: a [Different], or why the ledger does
// not answer.
func CheckLedger(ctx context.Context, entries []Entry, ledger Ledger) (errs []error) {
	for _, e := range entries {
		v := e.ModuleVersion
		recorded, err := ledger.Lookup(ctx, v)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = different(v, "it is %s here, and the ledger has no record of it", e.Sum)
		case err != nil:
			err = fmt.Errorf("%s: ledger: %w", v, err)
		case recorded.Sum != e.Sum:
			err = different(v, "it is %s here, and %s in the ledger", e.Sum, recorded.Sum)
		case !recorded.Is(e.Sum, e.Subdir):
			err = different(v, "it is the directory %s here, and %s in the ledger", cmp.Or(e.Subdir, "."), recorded.Subdir)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
