package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/modproxy/modproxy"
)

func (l Limits) orDefault() Limits {
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	set64 := func(n *int64, to int64) {
		if *n == 0 {
			*n = to
		}
	}
	if l.Time == 0 {
		l.Time = 10 * time.Minute
	}
	set64(&l.Received, 1<<30)
	set64(&l.Content, 1<<30)
	set(&l.Entries, 100_000)
	set(&l.Path, 1024)
	set(&l.Paths, 16<<20)
	set(&l.Submodules, 64)
	set(&l.Depth, 8)
	return l
}

// Check reports, as [modproxy.ErrInvalid], whether rawURL breaks the grammar of
// what Fetch takes: an https, http or ssh URL of a repository whose query is
// nothing but ref (a branch, a tag, a commit id, whole or abbreviated) and depth
// (a positive number, without influence on what is fetched).
func Check(rawURL string) error {
	_, _, err := parseSource(rawURL)
	return err
}

// Check is the package's Check and what else is sure to fail: an http or https
// URL that Allow refuses, an ssh host without identity ([modproxy.ErrDenied]).
// It resolves, connects and starts nothing.
func (f *Fetcher) Check(ctx context.Context, rawURL string) error {
	a, _, err := parseSource(rawURL)
	if err != nil {
		return err
	}
	return f.allow(ctx, a)
}

// Fetch writes the files of the revision that rawURL names into t and returns
// the id of its commit. Without ref that is the remote's HEAD; a tag goes before
// a branch of the same name.
//
// Errors: [modproxy.ErrInvalid] when rawURL or the content is refused or a limit
// is hit, [modproxy.ErrNotFound] when there is no such repository or ref,
// [modproxy.ErrDenied] when the policy does not allow the destination or the
// remote asks for a credential that is not there or not good,
// [modproxy.ErrUnavailable], and the cause of ctx when it ended; errors of t keep
// their identity. After an error t has a part of the files.
func (f *Fetcher) Fetch(ctx context.Context, rawURL string, t Tree) (commit string, err error) {
	a, ref, err := parseSource(rawURL)
	if err != nil {
		return "", err
	}
	name := a.String()
	if ref != "" {
		name += " ref " + ref
	}
	if commit, err = f.fetch(ctx, a, ref, t); err != nil {
		return "", fmt.Errorf("git fetch %s: %w", name, err)
	}
	return commit, nil
}

// fetch is one Fetch: what its repositories share.
type fetch struct {
	*Fetcher
	dir        string
	tree       Tree
	limits     Limits
	received   int64
	submodules int // repositories beside the first
}

func (f *Fetcher) fetch(ctx context.Context, a address, ref string, t Tree) (string, error) {
	limits := f.Limits.orDefault()
	ctx, stop := context.WithTimeoutCause(ctx, limits.Time,
		fmt.Errorf("%w: not done after %s", modproxy.ErrUnavailable, limits.Time))
	defer stop()
	if err := f.allow(ctx, a); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(f.Dir, "git-")
	if err != nil {
		return "", errUnavailable(err)
	}
	one := &fetch{Fetcher: f, dir: dir, tree: t, limits: limits}
	commit, err := one.repository(ctx, a, ref, "", 0)
	if removeErr := os.RemoveAll(dir); removeErr != nil && err == nil {
		err = errUnavailable(removeErr)
	}
	return commit, err
}

// repository fetches one repository, and the submodules in it, into the tree
// below prefix.
func (f *fetch) repository(ctx context.Context, a address, ref, prefix string, depth int) (commit string, err error) {
	at := a
	for hops := 0; ; hops++ {
		commit, links, byPath, err := f.extract(ctx, at, ref, prefix)
		var moved *redirect
		switch {
		case errors.As(err, &moved) && hops == maxRedirects:
			return "", fmt.Errorf("%w: more than %d redirects", modproxy.ErrUnavailable, maxRedirects)
		case errors.As(err, &moved):
			if at, err = moved.follow(at); err != nil {
				return "", err
			}
		case err != nil && at != a:
			return "", fmt.Errorf("redirected to %s: %w", at, err)
		case err != nil:
			return "", err
		default:
			// What is relative is relative to the URL that was asked for.
			return commit, f.fetchSubmodules(ctx, a, links, byPath, prefix, depth)
		}
	}
}

// extract fetches one repository into a directory that is gone when it returns:
// the disk space is for the next one.
func (f *fetch) extract(ctx context.Context, a address, ref, prefix string) (commit string, links map[string]entry, byPath map[string]submodule, err error) {
	r, commit, err := f.resolve(ctx, a, ref)
	if err != nil {
		return "", nil, nil, err
	}
	links, byPath, err = r.extract(ctx, commit, prefix, f.limits, f.tree)
	if closeErr := f.close(r); err == nil {
		err = closeErr
	}
	return commit, links, byPath, err
}

// resolve fetches the commit that ref means, again if trouble may pass. What is
// received counts, whatever comes of it: where too little is left because of trouble,
// that is the error.
func (f *fetch) resolve(ctx context.Context, a address, ref string) (r *repository, commit string, err error) {
	var trouble error // of the last try
	for tries := 1; ; tries++ {
		left := f.limits.Received - f.received
		if left <= 0 {
			return nil, "", cmp.Or(trouble, tooLarge(f.limits.Received))
		}
		if r, err = f.open(ctx, f.dir, a, left); err != nil {
			return nil, "", err
		}
		if commit, err = r.resolve(ctx, ref); err == nil {
			return r, commit, nil
		}
		if closeErr := f.close(r); closeErr != nil {
			return nil, "", err
		}
		if trouble != nil && errors.Is(err, modproxy.ErrInvalid) { // it is too large for what is left
			return nil, "", trouble
		}
		why, again := pauseAfter(ctx, err, tries)
		if !again {
			return nil, "", why
		}
		trouble = err
	}
}

// close removes r and counts what it received.
func (f *fetch) close(r *repository) error {
	f.received += r.received()
	if err := r.close(); err != nil {
		return errUnavailable(err)
	}
	return nil
}

// extract writes what commit has into t, and returns what it has of submodules.
func (r *repository) extract(ctx context.Context, commit, prefix string, l Limits, t Tree) (links map[string]entry, byPath map[string]submodule, err error) {
	tree, err := r.entries(ctx, commit, l)
	if err != nil {
		return nil, nil, err
	}
	modules := tree[".gitmodules"]
	if err := r.files(ctx, commit, prefix, tree, t); err != nil {
		return nil, nil, err
	}
	if len(tree) > 0 && (modules.mode == modeRegular || modules.mode == modeExecutable) {
		if modules.size > maxModulesFile {
			return nil, nil, invalid(".gitmodules is larger than %d bytes", maxModulesFile)
		}
		if byPath, err = r.submodules(ctx, commit); err != nil {
			return nil, nil, err
		}
	}
	return tree, byPath, nil
}

func asExit(err error) *exitError {
	var exit *exitError
	if errors.As(err, &exit) {
		return exit
	}
	return nil
}

func errUnavailable(err error) error { return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err) }
