package lock

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/modproxy/modproxy"
)

// maxFiles bounds the files of one package.
const maxFiles = 1_000_000

// tree is the files of one package on disk.
type tree struct {
	dir   string
	names []string // with slashes
	sum   modproxy.Sum
}

// readTree reads a package as a client has installed it. Files and directories that are called .git are not part of a
// package: they are there when a client has asked git itself. The error for what cannot be in a package is
// [modproxy.ErrInvalid].
func readTree(dir string) (*tree, error) {
	t := &tree{dir: dir}
	if info, err := os.Lstat(dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s: %w: it is not a directory", dir, modproxy.ErrInvalid)
	}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case isGit(d.Name()) && name != dir && d.IsDir():
			return fs.SkipDir
		case isGit(d.Name()) && d.Type().IsRegular(), d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s: %w: a link or a special file: packages have neither; it was not installed through modproxy, or changed since",
				name, modproxy.ErrInvalid)
		case len(t.names) == maxFiles:
			return fmt.Errorf("%s: %w: more than %d files", dir, modproxy.ErrInvalid, maxFiles)
		}
		rel, err := filepath.Rel(dir, name)
		t.names = append(t.names, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		return nil, err
	}
	t.sum, err = t.hash(t.names)
	return t, err
}

// Passed returns the files and directories in the packages of calls that are git's own. They are not part of a package, they
// are not compared with anything, and a module could load code from them by its path.
func Passed(calls []Call) (names []string, err error) {
	seen := map[string]bool{}
	for _, c := range calls {
		if seen[c.Package] {
			continue
		}
		seen[c.Package] = true
		err := filepath.WalkDir(c.Package, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil && name == c.Package:
				return fs.SkipDir // Make and Check return the error
			case err != nil:
				return err
			case name == c.Package || !isGit(d.Name()):
				return nil
			}
			names = append(names, name)
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// isGit reports whether a name is that of git's own directory or file.
func isGit(name string) bool { return strings.EqualFold(name, ".git") }

func (t *tree) hash(names []string) (modproxy.Sum, error) {
	sum, err := dirhash.Hash1(names, func(name string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(t.dir, filepath.FromSlash(name)))
	})
	if err != nil {
		return "", fmt.Errorf("%s: %w", t.dir, err)
	}
	return modproxy.Sum(sum), nil
}

// copied returns the sum of what the clients make of the package when they copy it, without hidden files.
func (t *tree) copied() (modproxy.Sum, error) {
	names := slices.DeleteFunc(slices.Clone(t.names), func(name string) bool { return strings.Contains("/"+name, "/.") })
	if len(names) == len(t.names) {
		return t.sum, nil
	}
	return t.hash(names)
}
