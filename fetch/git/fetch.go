package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/pack"
)

// Check implements [fetch.Getter]. A URL is one of a repository by https, http or ssh whose query is nothing but
// ref (a branch, a tag, a commit id, whole or abbreviated) and depth (a positive number, without influence on what
// is fetched). What is refused is what the network refuses, and ssh hosts without a key.
func (g *Getter) Check(ctx context.Context, s fetch.Source) error {
	a, _, err := named(s)
	if err != nil {
		return err
	}
	return g.use(s, nil).allow(ctx, a)
}

// Commit implements [fetch.Getter] by the remote's list of refs. The result is empty for an abbreviated id. A ref
// that is a whole id is that commit, and the remote is not asked.
func (g *Getter) Commit(ctx context.Context, s fetch.Source) (commit string, err error) {
	a, ref, err := named(s)
	switch {
	case err != nil:
		return "", err
	case isObjectID(ref):
		return strings.ToLower(ref), nil
	}
	u := g.use(s, nil)
	ctx, stop := u.bound(ctx)
	defer stop()
	err = redirected(a, func(at address) (err error) {
		commit, err = u.listed(ctx, at, ref)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("git ls-remote %s ref %s: %w", a, cmp.Or(ref, "HEAD"), err)
	}
	return commit, nil
}

// Fetch implements [fetch.Getter]. The default of ref is the remote's HEAD. A tag goes before a branch of its name.
func (g *Getter) Fetch(ctx context.Context, s fetch.Source, t *pack.Builder) (fetch.Result, error) {
	return g.fetch(ctx, s, t)
}

func (g *Getter) fetch(ctx context.Context, s fetch.Source, t tree) (got fetch.Result, err error) {
	a, ref, err := named(s)
	if err != nil {
		return got, err
	}
	got.Pinned = isObjectID(ref)
	if u, err := url.Parse(s.URL); err == nil {
		got.From.URL = egress.Redact(u)
	}
	u := g.use(s, t)
	ctx, stop := u.bound(ctx)
	defer stop()
	got.From.Commit, err = u.repository(ctx, a, ref, "", 0)
	switch {
	case err != nil && ref != "":
		err = fmt.Errorf("git fetch %s ref %s: %w", a, ref, err)
	case err != nil:
		err = fmt.Errorf("git fetch %s: %w", a, err)
	}
	return got, err
}

// named returns the repository and the ref that s names.
func named(s fetch.Source) (a address, ref string, err error) {
	if a, ref, err = parseSource(s.URL); err != nil || s.Commit == "" {
		return a, ref, err
	}
	return a, s.Commit, checkRef(s.Commit)
}

// use is one use of a Getter: what the repositories that it visits share.
type use struct {
	*Getter
	credentials fetch.Credentials // that may be used for the module
	limits      Limits
	tree        tree
	received    int64
	submodules  int // repositories beside the first
}

func (g *Getter) use(s fetch.Source, t tree) *use {
	return &use{Getter: g, credentials: g.Credentials.For(s.Module), limits: g.Limits.orDefault(), tree: t}
}

// bound returns ctx with the time that there is.
func (u *use) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	late := fmt.Errorf("%w: not done after %s", modproxy.ErrUnavailable, u.limits.Time)
	return context.WithTimeoutCause(ctx, u.limits.Time, late)
}

// listed returns the commit that ref is in the list of refs of the repository at a; empty if only a fetch would tell.
func (u *use) listed(ctx context.Context, a address, ref string) (commit string, err error) {
	r, err := u.open(ctx, a, u.limits.Received)
	if err != nil {
		return "", err
	}
	defer func() { err = cmp.Or(err, u.close(r)) }()
	commit, err = r.listDirect(ctx, ref)
	if r.otherwise(err) {
		if err = r.init("sha1"); err == nil {
			_, commit, err = r.list(ctx, ref)
		}
	}
	if err == nil && commit == "" && !isAbbreviated(ref) {
		err = errNoSuchRef
	}
	return commit, err
}

// repository fetches one repository, and the submodules in it, into the tree below prefix.
func (u *use) repository(ctx context.Context, a address, ref, prefix string, depth int) (commit string, err error) {
	var links map[string]entry // to the commits of submodules, by path
	var byPath map[string]*submodule
	err = redirected(a, func(at address) (err error) {
		r, err := u.resolve(ctx, at, ref, &commit)
		if err != nil {
			return err
		}
		// The disk space of the repository is for its submodules.
		defer func() { err = cmp.Or(err, u.close(r)) }()
		var modules entry
		if links, modules, err = r.read(ctx, commit, prefix, u.limits, u.tree); err != nil {
			return err
		}
		if len(links) > 0 && (modules.mode == modeRegular || modules.mode == modeExecutable) {
			byPath, err = r.submodules(ctx, commit, modules.size)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	// What is relative is relative to the URL that was asked for.
	return commit, u.fetchSubmodules(ctx, a, links, byPath, prefix, depth)
}

// resolve fetches the commit that ref means, again if trouble may pass. What is received counts, whatever comes of
// it: where too little is left because of trouble, that is the error.
func (u *use) resolve(ctx context.Context, a address, ref string, commit *string) (r *repository, err error) {
	var trouble error // of the last try
	err = fetch.Retry(ctx, func() (again bool, err error) {
		left := u.limits.Received - u.received
		if left <= 0 {
			return false, cmp.Or(trouble, tooLarge(u.limits.Received))
		}
		if r, err = u.open(ctx, a, left); err != nil {
			return false, err
		}
		if *commit, err = r.resolve(ctx, ref); err == nil {
			return false, nil
		}
		if closeErr := u.close(r); closeErr != nil {
			return false, err
		}
		if trouble != nil && errors.Is(err, modproxy.ErrInvalid) { // it is too large for what is left
			return false, trouble
		}
		trouble = err
		return r.mayPass, err
	})
	return r, err
}

// redirect tells that a repository is said to be elsewhere, in the answer to a request.
type redirect struct{ request, location string }

func (*redirect) Error() string { return "redirected" }

const (
	maxRedirects = 5
	firstRequest = "/info/refs?service=git-upload-pack" // with which git begins to talk to a repository
)

// redirected calls visit with a, and with each address that a visit finds to be redirected to.
func redirected(a address, visit func(at address) error) error {
	for at, hops := a, 0; ; hops++ {
		err := visit(at)
		moved, ok := errors.AsType[*redirect](err)
		switch {
		case ok && hops == maxRedirects:
			return fmt.Errorf("%w: more than %d redirects", modproxy.ErrUnavailable, maxRedirects)
		case ok:
			if at, err = moved.follow(at); err != nil {
				return err
			}
		case err != nil && at != a:
			return fmt.Errorf("redirected to %s: %w", at, err)
		default:
			return err
		}
	}
}

// follow returns the repository that r leads to from a. It is an address like any other: its grammar is checked
// here, the policy is asked for it, it gets the credential of its own origin, if any.
func (r *redirect) follow(a address) (address, error) {
	var to *url.URL
	from, err := url.Parse(a.String() + r.request)
	path, query, _ := strings.Cut(r.request, "?")
	if err == nil {
		to, err = from.Parse(r.location)
	}
	says := a.origin() + " redirects"
	switch {
	case err != nil:
		return a, fmt.Errorf("%w: %s to something that is not a URL", modproxy.ErrUnavailable, says)
	case !strings.HasSuffix(to.EscapedPath(), path) || to.RawQuery != query:
		return a, fmt.Errorf("%w: %s to something that is not a repository, perhaps because it wants a login",
			modproxy.ErrDenied, says)
	case a.scheme == "https" && to.Scheme != "https":
		return a, fmt.Errorf("%w: %s from https to another scheme", modproxy.ErrDenied, says)
	case to.Scheme != "https" && to.Scheme != "http":
		return a, invalid("a redirect to another scheme")
	}
	to.Path, to.RawPath, to.RawQuery = strings.TrimSuffix(to.Path, path), strings.TrimSuffix(to.RawPath, path), ""
	to.ForceQuery = false
	return newAddress(to)
}
