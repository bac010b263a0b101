package git

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy"
)

// redirect tells that a repository is said to be elsewhere.
type redirect struct{ location string }

func (*redirect) Error() string { return "redirected" }

const (
	maxRedirects = 5
	firstRequest = "/info/refs" // with which git begins to talk to a repository
	firstQuery   = "service=git-upload-pack"
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
	from, err := url.Parse(a.String() + firstRequest)
	if err == nil {
		to, err = from.Parse(r.location)
	}
	says := a.origin() + " redirects"
	switch {
	case err != nil:
		return a, fmt.Errorf("%w: %s to something that is not a URL", modproxy.ErrUnavailable, says)
	case !strings.HasSuffix(to.EscapedPath(), firstRequest) || to.RawQuery != firstQuery:
		return a, fmt.Errorf("%w: %s to something that is not a repository, perhaps because it wants a login", modproxy.ErrDenied, says)
	case a.scheme == "https" && to.Scheme != "https":
		return a, fmt.Errorf("%w: %s from https to another scheme", modproxy.ErrDenied, says)
	case to.Scheme != "https" && to.Scheme != "http":
		return a, invalid("a redirect to another scheme")
	}
	to.Path, to.RawPath, to.RawQuery = strings.TrimSuffix(to.Path, firstRequest), strings.TrimSuffix(to.RawPath, firstRequest), ""
	return newAddress(to)
}
