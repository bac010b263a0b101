package git

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
)

// resolve fetches the commit of ref, or of HEAD if ref is empty, and returns its id.
//
// It requests only that commit, by this package's own requests. If the server does not answer these, git requests the
// commit. If that also fails, git fetches everything. This is necessary for abbreviated ids, for servers that serve
// only commits that refs point at, and for servers without shallow fetches.
func (r *repository) resolve(ctx context.Context, ref string) (string, error) {
	ref = cmp.Or(ref, "HEAD")
	commit, errDirect := r.resolveDirect(ctx, ref)
	if !r.otherwise(errDirect) {
		return commit, errDirect
	}
	commit, err := r.resolveByGit(ctx, ref)
	absent := errors.Is(err, modproxy.ErrNotFound) && !errors.Is(err, errNoSuchRef) || errors.Is(err, modproxy.ErrDenied)
	if o, _ := errors.AsType[*otherwise](errDirect); o.refused && absent {
		return "", invalid("the server sends %s", o.says) // so the repository exists
	}
	return commit, err
}

// resolveByGit is resolve with a git that connects.
func (r *repository) resolveByGit(ctx context.Context, ref string) (string, error) {
	format := "sha1"
	if isObjectID(ref) && len(ref) == 64 {
		format = "sha256"
	}
	for {
		if err := r.init(format); err != nil {
			return "", err
		}
		commit, err := r.fetchOne(ctx, ref)
		if _, ended := errors.AsType[*exitError](err); !ended {
			return commit, err
		}
		found := seek(ref)
		its, err := r.list(ctx, found)
		listed := found.commit
		switch {
		case err != nil:
			return "", err
		case its != "" && its != format && isObjectID(ref):
			return "", errFormat(its)
		case its != "" && its != format:
			format = its
		case listed == "" && !isObjectID(ref) && !isAbbreviated(ref):
			return "", errNoSuchRef
		default:
			return r.fetchAll(ctx, ref, listed != "" && ref == "HEAD")
		}
	}
}

var (
	errNoSuchRef    = fmt.Errorf("%w: no such ref", modproxy.ErrNotFound)
	errNoSuchCommit = fmt.Errorf("%w: no such commit", modproxy.ErrNotFound)
	errNoCommit     = fmt.Errorf("%w: it names a tree or a file, not a commit", modproxy.ErrNotFound)
)

// errFormat returns the error for an id that is not in the object format of the repository.
func errFormat(its string) error {
	return fmt.Errorf("%w: the ids of the repository are of %s", errNoSuchCommit, its)
}

// init makes r an empty repository, as git init does (https://git-scm.com/docs/gitrepository-layout).
func (r *repository) init(format string) error {
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if format != "sha1" {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = " + format + "\n"
	}
	err := os.RemoveAll(r.dir)
	if err == nil {
		err = os.MkdirAll(filepath.Join(r.dir, "objects", "pack"), 0o700)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(r.dir, "refs"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(r.dir, "HEAD"), []byte("ref: refs/heads/main\n"), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(r.dir, "config"), []byte(config), 0o600)
	}
	return errUnavailable(err)
}

// fetchOne fetches one commit without its history.
func (r *repository) fetchOne(ctx context.Context, ref string) (string, error) {
	switch {
	case isObjectID(ref):
		ref = strings.ToLower(ref)
	case isAbbreviated(ref): // a tag takes precedence over an abbreviated id, and the id over a branch
		ref = "refs/tags/" + ref
	}
	if err := r.fetch(ctx, []string{"--depth=1"}, ref); err != nil {
		return "", err
	}
	return r.commitOf(ctx, "FETCH_HEAD")
}

// fetchAll fetches all branches and tags, and looks for ref like a client that has cloned the repository.
func (r *repository) fetchAll(ctx context.Context, ref string, head bool) (string, error) {
	specs := []string{"+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"}
	candidates := []string{ref, "refs/remotes/origin/" + ref, "refs/tags/" + ref}
	if head {
		specs = append(specs, "+HEAD:refs/remotes/origin/HEAD")
		candidates = []string{"refs/remotes/origin/HEAD"}
	}
	if err := r.fetch(ctx, nil, specs...); err != nil {
		return "", err
	}
	for _, candidate := range candidates {
		commit, err := r.commitOf(ctx, candidate)
		if _, ended := errors.AsType[*exitError](err); !ended {
			return commit, err
		}
	}
	if isObjectID(ref) {
		return "", errNoSuchCommit
	}
	return "", errNoSuchRef
}

// fetch runs git fetch. The refspecs are written to stdin, where git expects only refspecs.
func (r *repository) fetch(ctx context.Context, options []string, specs ...string) error {
	args := []string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--stdin"}
	c := r.git(append(append(args, options...), "--end-of-options", r.at.String())...)
	c.stdin = strings.NewReader(strings.Join(specs, "\n") + "\n")
	return r.connect(ctx, c)
}

// commitOf returns the id of the commit to which expression peels. If it does not exist, the error has an *exitError.
func (r *repository) commitOf(ctx context.Context, expression string) (string, error) {
	id, err := r.revParse(ctx, expression+"^{commit}")
	if _, ended := errors.AsType[*exitError](err); ended {
		if _, is := r.revParse(ctx, expression+"^{object}"); is == nil {
			return "", errNoCommit
		}
	}
	return id, err
}

// revParse returns the id of the object that expression names.
func (r *repository) revParse(ctx context.Context, expression string) (string, error) {
	id, err := r.git("rev-parse", "--verify", "--quiet", "--end-of-options", expression).output(ctx, 128)
	id = strings.TrimSpace(id)
	if err == nil && !isObjectID(id) {
		err = fmt.Errorf("%w: git rev-parse printed no id", modproxy.ErrUnavailable)
	}
	return id, err
}

// sought is a ref that is searched in a list of refs.
type sought struct {
	names  []string // in order of precedence
	commit string   // the commit of the ref, peeled if it is an annotated tag; empty while it is not found
}

// seek returns the search for ref; empty means HEAD. The search tries the names that git rev-parse tries
// (https://git-scm.com/docs/gitrevisions). For an abbreviated id it tries only a tag, because the id takes precedence
// over a branch.
func seek(ref string) *sought {
	ref = cmp.Or(ref, "HEAD")
	s := &sought{}
	for _, prefix := range []string{"", "refs/", "refs/tags/", "refs/heads/"} {
		if prefix == "refs/tags/" || !isAbbreviated(ref) {
			s.names = append(s.names, prefix+ref+"^{}", prefix+ref)
		}
	}
	return s
}

// prefixes implements [refReader].
func (s *sought) prefixes() (all []string) {
	for _, name := range s.names {
		if !strings.HasSuffix(name, "^{}") {
			all = append(all, name)
		}
	}
	return all
}

// see implements [refReader].
func (s *sought) see(id, name string) error {
	if at := slices.Index(s.names, name); at >= 0 {
		s.names, s.commit = s.names[:at], id
	}
	return nil
}

// list passes the remote's list of refs, requested by git with the options, to l. format is that of their ids, or empty
// if the list has no refs.
func (r *repository) list(ctx context.Context, l refReader, options ...string) (format string, err error) {
	args := append(append([]string{"ls-remote", "--quiet"}, options...), "--end-of-options", r.at.String())
	c := r.git(args...) // never with patterns of refs: they are globs
	c.stdout = func(stdout io.Reader) error {
		// Bytes over ssh are not counted elsewhere. One byte more than the limit shows that the list is longer.
		limited := &io.LimitedReader{R: stdout, N: r.limit + 1}
		lines := bufio.NewScanner(limited)
		for lines.Scan() {
			id, name, _ := strings.Cut(lines.Text(), "\t")
			if !isObjectID(id) {
				continue
			}
			format = formatOf(id)
			if err := l.see(id, name); err != nil {
				return err
			}
		}
		if limited.N <= 0 {
			return r.tooLarge()
		}
		return errUnavailable(lines.Err())
	}
	err = r.connect(ctx, c)
	return format, err
}
