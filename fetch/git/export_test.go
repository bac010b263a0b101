package git

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
)

// Tree takes the files of a revision.
type Tree = tree

// FetchURL writes the files of the revision that url names into t.
func (g *Getter) FetchURL(ctx context.Context, url string, t Tree) (commit string, err error) {
	got, err := g.fetch(ctx, fetch.Source{Location: modproxy.Location{URL: url}}, t)
	return got.From.Commit, err
}

// CommitURL returns the commit that url names.
func (g *Getter) CommitURL(ctx context.Context, url string) (string, error) {
	return g.Commit(ctx, fetch.Source{Location: modproxy.Location{URL: url}})
}

// CheckURL checks a location.
func (g *Getter) CheckURL(ctx context.Context, url string) error {
	return g.Check(ctx, fetch.Source{Location: modproxy.Location{URL: url}})
}

// Grammar returns what is wrong with url, whatever the policy is.
func Grammar(url string) error {
	_, _, err := parseSource(url)
	return err
}

// HoldSource holds what is accepted of a location to what git is handed.
func HoldSource(t *testing.T, raw string) {
	a, ref, err := parseSource(raw)
	if err != nil {
		if !errors.Is(err, modproxy.ErrInvalid) {
			t.Fatalf("%q: error %v is not ErrInvalid", raw, err)
		}
		return
	}
	a.hold(t, raw)
	if strings.HasPrefix(ref, "-") || strings.ContainsAny(ref, "\n\x00:*^~ +"[:7]) || strings.Contains(ref, "..") {
		t.Fatalf("%q: ref %q", raw, ref)
	}
	again, _, err := parseSource(a.String())
	if err != nil || again != a {
		t.Fatalf("%q is %q, and that is %q, %v", raw, a, again, err)
	}
}

// HoldSubmodules holds what is accepted of a .gitmodules file to the same.
func HoldSubmodules(t *testing.T, list, parent string) {
	at, err := parseAddress(parent)
	if err != nil {
		return
	}
	byPath, err := parseSubmodules(list)
	if err != nil {
		if !errors.Is(err, modproxy.ErrInvalid) {
			t.Fatalf("%q: error %v is not ErrInvalid", list, err)
		}
		return
	}
	for path, s := range byPath {
		if strings.HasPrefix(path, "-") || strings.Contains("/"+s.name+"/", "/../") {
			t.Fatalf("%q: path %q, name %q", list, path, s.name)
		}
		a, err := s.address(at)
		if err != nil {
			if !errors.Is(err, modproxy.ErrInvalid) {
				t.Fatalf("%q: error %v is not ErrInvalid", list, err)
			}
			continue
		}
		a.hold(t, s.url)
		again, err := parseAddress(a.String())
		if err != nil || again != a {
			t.Fatalf("%q is %q, and that is %q, %v", s.url, a, again, err)
		}
	}
}

func (a address) hold(t *testing.T, raw string) {
	s := a.String()
	if strings.ContainsAny(s, "\n\r\x00\\?#") || strings.HasPrefix(s, "-") {
		t.Fatalf("%q is %q", raw, s)
	}
	if strings.HasPrefix(a.host, "-") || strings.HasPrefix(a.user, "-") || strings.HasPrefix(strings.Trim(a.path, "/"), "-") {
		t.Fatalf("%q is %+v", raw, a)
	}
	if a.scp {
		return
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() != a.host || u.Scheme != a.scheme || u.EscapedPath() != a.path || u.RawQuery != "" {
		t.Fatalf("%q is %q, which reads as %+v, %v", raw, s, u, err)
	}
	if _, ok := u.User.Password(); ok || a.scheme != "ssh" && u.User != nil {
		t.Fatalf("%q is %q", raw, s)
	}
}

// RelativeURL is where a submodule of a relative URL is.
var RelativeURL = relativeURL

// Scrub is what a user is shown of git's stderr.
var Scrub = scrub
