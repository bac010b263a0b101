package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/pack"
)

// leads is a getter whose locations all lead to another one.
type leads struct{ to modproxy.Location }

func (l leads) Check(context.Context, fetch.Source) error            { return nil }
func (l leads) Commit(context.Context, fetch.Source) (string, error) { return "", nil }
func (l leads) Fetch(context.Context, fetch.Source, *pack.Builder) (fetch.Result, error) {
	return fetch.Result{From: modproxy.Source{URL: "page"}, Next: &l.to}, nil
}

// has is a getter whose locations have one file, by name.
type has string

func (h has) Check(_ context.Context, s fetch.Source) error {
	if strings.Contains(s.URL, "refused") {
		return modproxy.ErrDenied
	}
	return nil
}

func (h has) Commit(_ context.Context, s fetch.Source) (string, error) {
	return "commit of " + s.URL, nil
}

func (h has) Fetch(_ context.Context, s fetch.Source, tree *pack.Builder) (fetch.Result, error) {
	got := fetch.Result{From: modproxy.Source{URL: s.URL, Commit: s.Commit}, Immutable: strings.Contains(s.URL, "immutable")}
	switch {
	case s.Budget == nil:
		return got, errors.New("without a budget")
	case strings.Contains(s.URL, "bad"):
		return got, fmt.Errorf("%w: bad", modproxy.ErrInvalid)
	}
	return got, tree.File(string(h), false, strings.NewReader("# "+s.URL))
}

func table(t *testing.T, getters map[string]fetch.Getter) *fetch.Table {
	return &fetch.Table{Getters: getters, Scratch: t.TempDir()}
}

func at(getter, url, subdir string) fetch.Source {
	return fetch.Source{Location: modproxy.Location{Getter: getter, URL: url, Subdir: subdir}}
}

func TestUnknownGetters(t *testing.T) {
	tb := table(t, map[string]fetch.Getter{"git": has("main.tf")})
	for getter, says := range map[string]string{
		"hg": `the getter "hg", which modproxy does not fetch; mirror the repository to git`, "s3": "push the module to an OCI registry",
		"gcs": "https URL", "file": "never reads", "": `the getter ""`,
	} {
		want := modproxy.ErrInvalid
		if getter == "file" {
			want = modproxy.ErrDenied
		}
		_, errCommit := tb.Commit(t.Context(), at(getter, "x", ""))
		_, errPackage := tb.Package(t.Context(), at(getter, "x", ""))
		for _, err := range []error{tb.Check(t.Context(), at(getter, "x", "")), errCommit, errPackage} {
			if !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
				t.Errorf("%q: %v", getter, err)
			}
		}
	}
	if commit, err := tb.Commit(t.Context(), at("git", "x", "")); err != nil || commit != "commit of x" {
		t.Errorf("commit %q, %v", commit, err)
	}
}

// If a location leads to another one with a subdirectory, the package is in that subdirectory, below which the
// subdirectory of the first location is.
func TestPackageOfALocationThatLeadsToAnother(t *testing.T) {
	tb := table(t, map[string]fetch.Getter{
		"git":   has("top/one/mod/main.tf"),
		"https": leads{modproxy.Location{Getter: "git", URL: "x", Subdir: "top/*"}},
	})
	for _, c := range []struct {
		from         fetch.Source
		subdir, like string
	}{
		{at("https", "page", "mod"), "mod", "top/one"},
		{at("https", "page", "m*"), "", "top/one/mod"},
		{at("git", "x", "top/one"), "top/one", ""},
	} {
		c.from.Commit = "0a"
		p, err := tb.Package(t.Context(), c.from)
		if err != nil {
			t.Fatalf("%v: %v", c.from, err)
		}
		if p.Subdir != c.subdir || p.Source != (modproxy.Source{URL: "x", Commit: "0a"}) {
			t.Errorf("%v: subdirectory %q, from %+v", c.from, p.Subdir, p.Source)
		}
		p.Close()
		b, err := pack.New(t.TempDir(), pack.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		name := strings.TrimPrefix(strings.TrimPrefix("top/one/mod/main.tf", c.like), "/")
		if err := b.File(name, false, strings.NewReader("# x")); err != nil {
			t.Fatal(err)
		}
		if want, err := b.Pack(discard{}, ""); err != nil || p.Sum != want.Sum {
			t.Errorf("%v: its sum is not that of %s: %v", c.from, name, err)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// An error about content that the location itself determines is permanent; an error behind a page is not.
func TestErrorsOfPackages(t *testing.T) {
	getters := map[string]fetch.Getter{"git": has("main.tf"), "loop": leads{modproxy.Location{Getter: "loop", URL: "page"}}}
	for _, to := range []string{"immutable-bad", "refused", "fine"} {
		getters[to] = leads{modproxy.Location{Getter: "git", URL: to}}
	}
	tb := table(t, getters)
	for _, c := range []struct {
		from  fetch.Source
		is    error
		fixed bool
		says  string
	}{
		{at("git", "immutable-bad", ""), modproxy.ErrInvalid, true, "bad"},
		{at("git", "immutable", "no/such/*"), modproxy.ErrInvalid, true, "immutable: "},
		{at("git", "bad", ""), modproxy.ErrInvalid, false, "bad"},
		{at("immutable-bad", "page", ""), modproxy.ErrInvalid, false, "bad"},
		{at("refused", "page", ""), modproxy.ErrDenied, false, "page: location: "},
		{at("loop", "page", ""), modproxy.ErrInvalid, false, "more than 5 locations"},
	} {
		_, err := tb.Package(t.Context(), c.from)
		if !errors.Is(err, c.is) || errors.As(err, new(*modproxy.PermanentContent)) != c.fixed || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c.from, err)
		}
	}
	if p, err := tb.Package(t.Context(), at("fine", "page", "")); err != nil {
		t.Error(err)
	} else {
		p.Close()
	}
}

// A package without the subdirectory that it needs does not exist.
func TestNeededSubdir(t *testing.T) {
	tb := table(t, map[string]fetch.Getter{
		"git":   has("top/one/mod/main.tf"),
		"https": leads{modproxy.Location{Getter: "git", URL: "x", Subdir: "top/*"}},
	})
	for _, c := range []struct {
		from  fetch.Source
		found bool
	}{
		{at("git", "x", ""), true},
		{at("git", "x", "top/one/mod"), true},
		{at("git", "x", "top/one"), true},
		{at("git", "x", "top/two"), false},
		{at("git", "x", "top/on"), false},
		{at("git", "x", "top/one/mod/main.tf"), false},
		{at("git", "immutable", "top/two"), false},
		{at("git", "x", "*/one"), true},
		{at("git", "x", "*/two"), false},
		{at("https", "page", "mod"), true},
		{at("https", "page", "top"), false},
	} {
		p, err := tb.Package(t.Context(), c.from)
		if err != nil {
			t.Fatalf("%v: not needed: %v", c.from, err)
		}
		p.Close()
		c.from.NeedsSubdir = true
		p, err = tb.Package(t.Context(), c.from)
		switch {
		case err == nil:
			p.Close()
			if !c.found {
				t.Errorf("%v: a package without the directory", c.from)
			}
		case c.found || !errors.Is(err, modproxy.ErrNotFound) || errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), `no directory "`):
			t.Errorf("%v: %v", c.from, err)
		}
	}
}
