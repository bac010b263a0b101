package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/modproxy/modproxy"
)

// kind is an error with its own text that equals another error by [errors.Is].
type kind struct {
	error
	is error
}

func (k kind) Is(target error) bool { return target == k.is }

// different returns a [modproxy.ErrChanged] for a version that differs.
func different(v modproxy.Ref, format string, args ...any) error {
	return kind{fmt.Errorf("%s: "+format, append([]any{v}, args...)...), modproxy.ErrChanged}
}

// group returns the sorted versions, and the calls of each.
func group(calls []Call) ([]modproxy.Ref, map[modproxy.Ref][]Call) {
	by := map[modproxy.Ref][]Call{}
	for _, c := range calls {
		by[c.Ref] = append(by[c.Ref], c)
	}
	return slices.SortedFunc(maps.Keys(by), func(a, b modproxy.Ref) int {
		return cmp.Or(cmp.Compare(a.Address.String(), b.Address.String()), cmp.Compare(a.Version, b.Version))
	}), by
}

// Make returns entries for the installed modules. Every error is about one version: [modproxy.ErrChanged] if its copies
// differ, [modproxy.ErrInvalid] if its directory has a file that no package has, or an error of the file system.
func Make(calls []Call) (entries []Entry, errs []error) {
	versions, by := group(calls)
	for _, v := range versions {
		e, err := compare(Entry{Ref: v, Subdir: by[v][0].Subdir}, by[v])
		if err != nil {
			errs = append(errs, err)
		} else {
			entries = append(entries, e)
		}
	}
	return entries, errs
}

// Check compares the installed modules with entries. Every error is about one version: [modproxy.ErrChanged] if it differs,
// is missing, or is not locked; otherwise as for [Make].
func Check(entries []Entry, calls []Call) (errs []error) {
	locked := map[modproxy.Ref]bool{}
	versions, by := group(calls)
	for _, e := range entries {
		locked[e.Ref] = true
		installed := by[e.Ref]
		if len(installed) == 0 {
			errs = append(errs, different(e.Ref, "it is locked as %s, but not installed", e.Sum))
		} else if _, err := compare(e, installed); err != nil {
			errs = append(errs, err)
		}
	}
	for _, v := range versions {
		if locked[v] {
			continue
		}
		more := ""
		if n := len(by[v]) - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		errs = append(errs, different(v, "it is installed (module %s%s), but not locked", by[v][0].Key, more))
	}
	return errs
}

// compare compares the packages of the calls of one version with want, or with each other if want has no sum. It returns want
// with the sum of the whole package.
func compare(want Entry, calls []Call) (Entry, error) {
	v := want.Ref
	sums := make([]modproxy.Sum, len(calls))
	whole, most := -1, []string(nil) // the package with the wanted sum, or else the one with the most files
	for i, c := range calls {
		names, _, err := files(c.Package)
		if err == nil {
			sums[i], err = hash(c.Package, names)
		}
		if err != nil {
			return want, fmt.Errorf("%s: module %s: %w", v, c.Key, err)
		}
		if want.Sum == "" && (whole < 0 || len(names) > len(most)) || want.Sum != "" && sums[i] == want.Sum {
			whole, most = i, names
		}
	}
	if whole < 0 {
		return want, different(v, "on disk it is %s, in %s; locked is %s", sums[0], calls[0].Package, want.Sum)
	}
	// The clients omit names that begin with a dot when they copy a package.
	copied, err := hash(calls[whole].Package, slices.DeleteFunc(most, func(name string) bool {
		return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
	}))
	if err != nil {
		return want, err
	}
	want.Sum = sums[whole]
	for i, c := range calls {
		if sums[i] != want.Sum && sums[i] != copied {
			return want, different(v, "on disk it is %s, in %s; it is %s in %s%s", sums[i], c.Package, want.Sum, calls[whole].Package,
				difference(c.Package, calls[whole].Package))
		}
		if c.Subdir != want.Subdir {
			return want, different(v, "module %s is in the directory %q of its package; want %q", c.Key, c.Subdir, want.Subdir)
		}
	}
	return want, nil
}

// difference returns the names of files that differ between two copies of a package. Files that begin with a dot may be
// missing in one.
func difference(a, b string) string {
	these, _, errA := files(a)
	those, _, errB := files(b)
	if errA != nil || errB != nil {
		return ""
	}
	var names []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(these, those)))) {
		sumA, errA := hash(a, []string{name})
		sumB, errB := hash(b, []string{name})
		hidden := strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
		if (errA == nil && errB == nil || !hidden) && sumA != sumB {
			names = append(names, fmt.Sprintf("%q", name))
		}
	}
	const most = 3
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	if len(names) == 0 {
		return ""
	}
	return "; they differ in " + strings.Join(names, ", ")
}

const maxFiles = 1_000_000 // files of one package

// files returns the names of the files of a package as a client has installed it, with slashes, and the paths of git's own
// files and directories. These are called .git and are not part of a package. They exist if a client has downloaded from git
// directly. An entry that cannot be in a package returns [modproxy.ErrInvalid].
func files(dir string) (names, git []string, err error) {
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		own := err == nil && name != dir && isGit(d.Name())
		switch {
		case err != nil:
			return err
		case name == dir && !d.IsDir():
			return fmt.Errorf("%s: %w: it is not a directory", dir, modproxy.ErrInvalid)
		case own && d.IsDir():
			git = append(git, name)
			return fs.SkipDir
		case own && d.Type().IsRegular():
			git = append(git, name)
			return nil
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s: %w: a link or a special file: packages have neither; it was not installed through modproxy, "+
				"or changed since", name, modproxy.ErrInvalid)
		case len(names) == maxFiles:
			return fmt.Errorf("%s: %w: more than %d files", dir, modproxy.ErrInvalid, maxFiles)
		}
		rel, err := filepath.Rel(dir, name)
		names = append(names, filepath.ToSlash(rel))
		return err
	})
	return names, git, err
}

// isGit reports whether name is the name of git's own directory or file.
func isGit(name string) bool { return strings.EqualFold(name, ".git") }

func hash(dir string, names []string) (modproxy.Sum, error) {
	sum, err := dirhash.Hash1(names, func(name string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(dir, filepath.FromSlash(name)))
	})
	if err != nil {
		return "", fmt.Errorf("%s: %w", dir, err)
	}
	return modproxy.Sum(sum), nil
}

// Passed returns the paths that Make and Check pass over: git's own files and directories in the packages of calls. A module could
// load code from them by path, so callers show them to the user. If a package cannot be read, its paths may be missing here; Make and
// Check return the error.
func Passed(calls []Call) (paths []string) {
	for _, c := range calls {
		_, git, _ := files(c.Package) // Make and Check return the error
		paths = append(paths, git...)
	}
	return paths
}

// A Ledger returns the records of versions.
type Ledger interface {
	// Lookup returns the record that applies to a version. It returns [fs.ErrNotExist] if it does not exist, or
	// [modproxy.ErrDenied] with the reason if the version is denied.
	Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error)
}

// Deprecations returns the deprecations of versions.
type Deprecations interface {
	// Deprecation returns the message for users of a version that was looked up, or an empty string.
	Deprecation(ctx context.Context, v modproxy.Ref) string
}

// Deprecated returns one line for each deprecated version. versions must have been looked up in known before, as [CheckLedger] and
// [CheckProviders] do: other versions do not appear.
func Deprecated(ctx context.Context, versions []modproxy.Ref, known Deprecations) (lines []string) {
	for _, v := range versions {
		if text := known.Deprecation(ctx, v); text != "" {
			lines = append(lines, fmt.Sprintf("%s is deprecated: %s", v, text))
		}
	}
	return lines
}

// CheckLedger compares entries with a ledger. Every error is about one version: [modproxy.ErrChanged], also if the ledger has no
// record of it, [modproxy.ErrDenied], or an error of the ledger.
func CheckLedger(ctx context.Context, entries []Entry, ledger Ledger) (errs []error) {
	for _, e := range entries {
		v := e.Ref
		recorded, err := modproxy.LookupAs(ctx, ledger, v, e.Sum)
		switch {
		case err != nil:
			err = unknown(v, string(e.Sum)+" here", err)
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

// unknown returns the error for a version without a record in a ledger, because of err. is describes the version without the
// record.
func unknown(v modproxy.Ref, is string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return different(v, "it is %s, and the ledger has no record of it", is)
	case errors.Is(err, modproxy.ErrDenied):
		return fmt.Errorf("%s: %w", v, err)
	}
	return fmt.Errorf("%s: ledger: %w", v, err)
}
