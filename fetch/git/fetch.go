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

// Check implements [fetch.Getter]. A URL names a repository over https, http or ssh. Its query may only have ref (a
// branch, a tag, or a commit id, complete or abbreviated) and depth (a positive number that does not affect the files).
// Check refuses URLs that the network refuses, and ssh hosts without a configured key.
func (g *Getter) Check(ctx context.Context, s fetch.Source) error {
	a, _, err := named(s)
	if err != nil {
		return err
	}
	return g.use(s, nil).allow(ctx, a)
}

// Commit implements [fetch.Getter] with the remote's list of refs. The result is empty for an abbreviated id. If the
// ref is a complete id, the result is that id, without a request.
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
	err = u.redirected(a, func(at address) (err error) {
		commit, err = u.listed(ctx, at, ref)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("git ls-remote %s ref %s: %w", a, cmp.Or(ref, "HEAD"), err)
	}
	return commit, nil
}

// Fetch implements [fetch.Getter]. The default ref is the remote's HEAD. A tag takes precedence over a branch of the
// same name.
func (g *Getter) Fetch(ctx context.Context, s fetch.Source, t *pack.Builder) (fetch.Result, error) {
	return g.fetch(ctx, s, t)
}

func (g *Getter) fetch(ctx context.Context, s fetch.Source, t tree) (got fetch.Result, err error) {
	a, ref, err := named(s)
	if err != nil {
		return got, err
	}
	original := a
	if s.Named.URL != "" {
		if original, _, err = parseSource(s.Named.URL); err != nil {
			return got, err
		}
	}
	got.Immutable = isObjectID(ref)
	if u, err := url.Parse(s.URL); err == nil {
		got.From.URL = egress.Redact(u)
	}
	u := g.use(s, t)
	ctx, stop := u.bound(ctx)
	defer stop()
	got.From.Commit, err = u.repository(ctx, original, a, ref, "", 0)
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

// use is one use of a Getter. Its repositories share it.
type use struct {
	*Getter
	credentials fetch.Credentials // the credentials that the module may use
	mirrors     fetch.Mirrors
	onAnswer    func() // see [fetch.Source]; may be nil
	limits      Limits
	tree        tree
	received    int64
	submodules  int // repositories in addition to the first
}

func (g *Getter) use(s fetch.Source, t tree) *use {
	return &use{Getter: g, credentials: g.Credentials.For(s.Module), mirrors: s.Mirrors, onAnswer: s.OnAnswer, limits: g.Limits.orDefault(), tree: t}
}

// bound returns ctx with the time limit.
func (u *use) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	late := &fetch.NoAnswer{Why: "it did not answer in time", Err: fmt.Errorf("%w: not done after %s", modproxy.ErrUnavailable, u.limits.Time)}
	return context.WithTimeoutCause(ctx, u.limits.Time, late)
}

// listed returns the commit of ref in the list of refs of the repository at a. It is empty if only a fetch would show
// it.
func (u *use) listed(ctx context.Context, a address, ref string) (commit string, err error) {
	r, err := u.open(ctx, a, u.limits.Received)
	if err != nil {
		return "", err
	}
	defer func() { err = cmp.Or(err, u.close(r)) }()
	found := seek(ref)
	err = r.listDirect(ctx, found)
	if r.otherwise(err) {
		if err = r.init("sha1"); err == nil {
			found = seek(ref)
			_, err = r.list(ctx, found)
		}
	}
	if err == nil && found.commit == "" && !isAbbreviated(ref) {
		err = errNoSuchRef
	}
	return found.commit, err
}

// repository fetches the repository at a, with its submodules, into the tree below prefix. named is the repository that a is a mirror of,
// or a itself.
func (u *use) repository(ctx context.Context, named, a address, ref, prefix string, depth int) (commit string, err error) {
	var links map[string]entry // to the commits of submodules, by path
	var byPath map[string]*submodule
	err = u.redirected(a, func(at address) (err error) {
		r, err := u.resolve(ctx, at, ref, &commit)
		if err != nil {
			return err
		}
		// Remove the repository first, so that its submodules can use the disk space.
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
	// Relative URLs are relative to the URL that names the repository, not to its mirror or to the URL after redirects.
	return commit, u.fetchSubmodules(ctx, named, links, byPath, prefix, depth)
}

// resolve fetches the commit of ref, and retries temporary failures. The bytes of failed tries count against the limit.
// If a failure leaves too few bytes, resolve returns the error of that failure.
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
		if trouble != nil && errors.Is(err, modproxy.ErrInvalid) { // it is too large for the rest of the limit
			return false, trouble
		}
		trouble = err
		return r.mayPass, err
	})
	return r, err
}

// redirect is the error for an answer that redirects a request for a repository.
type redirect struct{ request, location string }

func (*redirect) Error() string { return "redirected" }

const (
	maxRedirects = 5
	firstRequest = "/info/refs?service=git-upload-pack" // the first request of git to a repository
)

// redirected calls visit with a, and then with each address to which a visit is redirected.
func (u *use) redirected(a address, visit func(at address) error) error {
	for at, hops := a, 0; ; hops++ {
		err := visit(at)
		moved, ok := errors.AsType[*redirect](err)
		switch {
		case ok && hops == maxRedirects:
			return fmt.Errorf("%w: more than %d redirects", modproxy.ErrUnavailable, maxRedirects)
		case ok:
			from := at
			if at, err = moved.follow(from); err == nil {
				err = u.mirrors.CheckRedirect(from.url(), at.url())
			}
			if err != nil {
				return err
			}
		case err != nil && at != a:
			return fmt.Errorf("redirected to %s: %w", at, err)
		default:
			return err
		}
	}
}

// follow returns the repository to which r redirects from a. It is checked like any other address: by its grammar here,
// and by the policy when it is opened. It uses only the credential of its own origin.
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
