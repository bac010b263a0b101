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

// kind is an error that is another one by [errors.Is], and has a text of its own.
type kind struct {
	error
	is error
}

func (k kind) Is(target error) bool { return target == k.is }

// different returns the error for a version that is not as it should be. It is [modproxy.ErrChanged].
func different(v modproxy.Ref, format string, args ...any) error {
	return kind{fmt.Errorf("%s: "+format, append([]any{v}, args...)...), modproxy.ErrChanged}
}

// group returns the calls of each version, and the versions in order.
func group(calls []Call) ([]modproxy.Ref, map[modproxy.Ref][]Call) {
	by := map[modproxy.Ref][]Call{}
	for _, c := range calls {
		by[c.Ref] = append(by[c.Ref], c)
	}
	return slices.SortedFunc(maps.Keys(by), func(a, b modproxy.Ref) int {
		return cmp.Or(cmp.Compare(a.Address.String(), b.Address.String()), cmp.Compare(a.Version, b.Version))
	}), by
}

// Make returns entries for what is installed. Every error is about one version: [modproxy.ErrChanged] when its copies are
// not the same, or what else is wrong with it.
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

// Check compares what is installed with entries. Every error is about one version: [modproxy.ErrChanged] when it is not
// the same, is missing, or is one too many, or what else is wrong with it.
func Check(entries []Entry, calls []Call) (errs []error) {
	locked := map[modproxy.Ref]bool{}
	versions, by := group(calls)
	for _, e := range entries {
		locked[e.Ref] = true
		installed := by[e.Ref]
		if len(installed) == 0 {
			errs = append(errs, different(e.Ref, "it is locked as %s, and not installed", e.Sum))
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
		errs = append(errs, different(v, "it is installed (module %s%s), and not locked", by[v][0].Key, more))
	}
	return errs
}

// compare compares the packages of the calls of one version with want, or, when that has no sum, with each other. It
// returns want with the sum of the whole package.
func compare(want Entry, calls []Call) (Entry, error) {
	v := want.Ref
	sums := make([]modproxy.Sum, len(calls))
	whole, most := -1, []string(nil) // the package that is wanted, or else the one with the most files
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
	// The clients leave names that begin with a dot out when they copy a package.
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

// difference names the files that differ in two copies of a package. Files that begin with a dot may be missing in one.
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

const maxFiles = 1_000_000 // of one package

// files returns the names of the files of a package as a client has installed it, with slashes, and the paths of what is
// git's own: files and directories that are called .git are not part of a package, and there when a client has asked git
// itself. The error for what cannot be in a package is [modproxy.ErrInvalid].
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

// isGit reports whether a name is that of git's own directory or file.
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

// Passed returns the files and directories in the packages of calls that are git's own. They are not compared with
// anything, and a module could load code from them by its path.
func Passed(calls []Call) (paths []string) {
	for _, c := range calls {
		_, git, _ := files(c.Package) // Make and Check return the error
		paths = append(paths, git...)
	}
	return paths
}

// A Ledger knows what versions are.
type Ledger interface {
	// Lookup returns the record that counts for a version, [fs.ErrNotExist] if there is none, or [modproxy.ErrDenied] with the
	// reason if the version may not be used.
	Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error)
}

// Deprecations knows which versions should no longer be used.
type Deprecations interface {
	// Deprecation returns what users of a version that was looked up are told, or an empty string.
	Deprecation(ctx context.Context, v modproxy.Ref) string
}

// Deprecated returns a line for each version that is deprecated.
func Deprecated(ctx context.Context, versions []modproxy.Ref, known Deprecations) (lines []string) {
	for _, v := range versions {
		if text := known.Deprecation(ctx, v); text != "" {
			lines = append(lines, fmt.Sprintf("%s is deprecated: %s", v, text))
		}
	}
	return lines
}

// CheckLedger compares entries with a ledger. Every error is about one version: [modproxy.ErrChanged], [modproxy.ErrDenied], or
// the ledger's.
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

// unknown returns the error for a version of which a ledger gives no record, because of err. It is is what it is without.
func unknown(v modproxy.Ref, is string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return different(v, "it is %s, and the ledger has no record of it", is)
	case errors.Is(err, modproxy.ErrDenied):
		return fmt.Errorf("%s: %w", v, err)
	}
	return fmt.Errorf("%s: ledger: %w", v, err)
}
