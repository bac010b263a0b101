package lock

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/modproxy/modproxy"
)

// Different tells what is not as it should be: a module, and what is wrong with it.
// It is [modproxy.ErrChanged].
type Different struct {
	Module  modproxy.Module
	Version string
	What    string
}

func (d *Different) Error() string { return d.Module.String() + " " + d.Version + ": " + d.What }

// Unwrap makes it [modproxy.ErrChanged].
func (d *Different) Unwrap() error { return modproxy.ErrChanged }

// version is what several calls may share.
type version struct {
	module  modproxy.Module
	version string
}

// group sorts calls by what they share.
func group(calls []Call) (versions []version, by map[version][]Call) {
	by = map[version][]Call{}
	for _, c := range calls {
		v := version{c.Module, c.Version}
		if by[v] == nil {
			versions = append(versions, v)
		}
		by[v] = append(by[v], c)
	}
	slices.SortFunc(versions, func(a, b version) int {
		return cmp.Or(cmp.Compare(a.module.String(), b.module.String()), cmp.Compare(a.version, b.version))
	})
	return versions, by
}

// Make makes the entries of what is installed. Every error is about one version: a
// [Different] when its copies are not the same, or what else is wrong with it.
func Make(calls []Call) (entries []Entry, errs []error) {
	versions, by := group(calls)
	for _, v := range versions {
		sum, err := v.hold(by[v], "")
		if err == nil {
			err = v.holdSubdir(by[v], by[v][0].Subdir)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		entries = append(entries, Entry{v.module, v.version, sum, by[v][0].Subdir})
	}
	return entries, errs
}

// Check holds what is installed to entries. Every error is about one version: a
// [Different] when it is not the same, is missing, or is one too many, or what else
// is wrong with it.
func Check(entries []Entry, calls []Call) (errs []error) {
	want := map[version]Entry{}
	for _, e := range entries {
		want[version{e.Module, e.Version}] = e
	}
	versions, by := group(calls)
	for _, v := range versions {
		locked, ok := want[v]
		delete(want, v)
		if !ok {
			errs = append(errs, v.differs("it is installed (%s), and not locked", keys(by[v])))
			continue
		}
		_, err := v.hold(by[v], locked.Sum)
		if err == nil {
			err = v.holdSubdir(by[v], locked.Subdir)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	for _, e := range entries {
		if v := (version{e.Module, e.Version}); want[v].Sum != "" {
			errs = append(errs, v.differs("it is locked as %s, and not installed", e.Sum))
			delete(want, v)
		}
	}
	return errs
}

func (v version) differs(format string, args ...any) error {
	return &Different{v.module, v.version, fmt.Sprintf(format, args...)}
}

func keys(calls []Call) string {
	s := "module " + calls[0].Key
	if n := len(calls) - 1; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// holdSubdir holds what calls of one version load to one directory of the package.
func (v version) holdSubdir(calls []Call, want string) error {
	for _, c := range calls {
		if c.Subdir != want {
			return v.differs("module %s is in the directory %q of its package; want %q", c.Key, c.Subdir, want)
		}
	}
	return nil
}

// hold holds the directories of one version to want, or, where that is empty, to
// each other, and is the sum of the whole package.
func (v version) hold(calls []Call, want modproxy.Sum) (modproxy.Sum, error) {
	trees := make([]*tree, len(calls))
	var whole *tree
	for i, c := range calls {
		t, err := readTree(c.Package)
		if err != nil {
			return "", fmt.Errorf("%s %s: module %s: %w", v.module, v.version, c.Key, err)
		}
		trees[i] = t
		// The whole one is that which is wanted, or else the one with the most files.
		if want == "" && (whole == nil || len(t.names) > len(whole.names)) || want != "" && t.sum == want {
			whole = t
		}
	}
	if whole == nil {
		return "", v.differs("on disk it is %s, in %s; locked is %s", trees[0].sum, trees[0].dir, want)
	}
	copied, err := whole.copied()
	if err != nil {
		return "", err
	}
	for _, t := range trees {
		if t.sum != whole.sum && t.sum != copied {
			return "", v.differs("on disk it is %s, in %s; it is %s in %s", t.sum, t.dir, whole.sum, whole.dir)
		}
	}
	return whole.sum, nil
}
