package git

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
)

// Commit is the id of the commit that rawURL names now, if the remote's list of refs
// says it, and empty if only a fetch would: for an abbreviated id. A ref that is a
// whole id is that commit, and the remote is not asked. Nothing is fetched.
//
// Errors are those of Fetch.
func (f *Fetcher) Commit(ctx context.Context, rawURL string) (commit string, err error) {
	a, ref, err := parseSource(rawURL)
	switch {
	case err != nil:
		return "", err
	case isObjectID(ref):
		return strings.ToLower(ref), nil
	}
	limits := f.Limits.orDefault()
	ctx, stop := context.WithTimeoutCause(ctx, limits.Time,
		fmt.Errorf("%w: not done after %s", modproxy.ErrUnavailable, limits.Time))
	defer stop()
	if err = f.allow(ctx, a); err == nil {
		commit, err = f.ask(ctx, a, ref, limits.Received)
	}
	if err != nil {
		return "", fmt.Errorf("git ls-remote %s ref %s: %w", a, cmp.Or(ref, "HEAD"), err)
	}
	return commit, nil
}

// ask asks a repository, and those that it redirects to.
func (f *Fetcher) ask(ctx context.Context, a address, ref string, limit int64) (commit string, err error) {
	dir, err := os.MkdirTemp(f.Dir, "git-")
	if err != nil {
		return "", errUnavailable(err)
	}
	defer os.RemoveAll(dir) // the next start does, else
	for hops := 0; ; hops++ {
		commit, err = f.askOne(ctx, dir, a, ref, limit)
		var moved *redirect
		switch {
		case !errors.As(err, &moved):
			return commit, err
		case hops == maxRedirects:
			return "", fmt.Errorf("%w: more than %d redirects", modproxy.ErrUnavailable, maxRedirects)
		}
		if a, err = moved.follow(a); err != nil {
			return "", err
		}
	}
}

func (f *Fetcher) askOne(ctx context.Context, dir string, a address, ref string, limit int64) (commit string, err error) {
	r, err := f.open(ctx, dir, a, limit)
	if err != nil {
		return "", err
	}
	defer func() {
		if closeErr := r.close(); closeErr != nil && err == nil {
			err = errUnavailable(closeErr)
		}
	}()
	if err := r.init(ctx, "sha1"); err != nil {
		return "", err
	}
	if commit, err = r.listed(ctx, ref); err != nil {
		why, _ := r.explain(ctx, err)
		return "", why
	}
	if commit == "" && !isAbbreviated(ref) {
		return "", noSuchRef(ref)
	}
	return commit, nil
}

// listed is the id that the remote lists for what ref means, an annotated tag
// peeled; empty if it lists none.
func (r *repository) listed(ctx context.Context, ref string) (string, error) {
	named := names(cmp.Or(ref, "HEAD"))
	if isAbbreviated(ref) {
		named = []string{"refs/tags/" + ref} // an abbreviated id goes before a branch
	}
	var wanted []string // what comes first counts
	for _, name := range named {
		wanted = append(wanted, name+"^{}", name)
	}
	best, id := len(wanted), ""
	err := r.connect(ctx, command{
		args: []string{"ls-remote", "--quiet", "--end-of-options", r.at.String()},
		stdout: func(stdout io.Reader) error {
			lines := bufio.NewScanner(stdout)
			for lines.Scan() {
				of, name, _ := strings.Cut(lines.Text(), "\t")
				if at := slices.Index(wanted[:best], name); at >= 0 && isObjectID(of) {
					best, id = at, of
				}
			}
			if lines.Err() != nil {
				return errUnavailable(lines.Err())
			}
			return nil
		},
	})
	return id, err
}
