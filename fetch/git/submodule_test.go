package git_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch/git"
)

// Relative URLs are resolved as git resolves them, even to unexpected addresses.
func TestRelativeURL(t *testing.T) {
	t.Parallel()
	a := newAuthor(t, t.TempDir(), "a.git")
	id := a.commit("a")
	a.git("remote", "add", "origin", "https://h/x")
	relative := []string{"../y.git", "./y", "../y/", "./.././y", "../../e.example/y", "../../../e.example/y", "../y//z",
		"../../../../../y"}
	var modules strings.Builder
	for i, url := range relative {
		fmt.Fprintf(&modules, "[submodule \"%d\"]\n\tpath = p%d\n\turl = %s\n", i, i, url)
		a.submodule(fmt.Sprintf("p%d", i), id)
	}
	a.write(".gitmodules", modules.String())
	for _, parent := range []string{"https://h/g/x.git", "https://h/g/x.git/", "https://h:8443/a/b/c/d/e/f/x",
		"ssh://git@h/g/x", "git@h:a/b/c/d/e/f/x"} {
		a.git("config", "remote.origin.url", parent)
		a.git("submodule", "--quiet", "init")
		want := strings.Fields(a.git("config", "--get-regexp", `^submodule\..*\.url$`))
		for i, url := range relative {
			if got, err := git.RelativeURL(parent, url); err != nil || len(want) != 2*len(relative) || got != want[2*i+1] {
				t.Errorf("%s at %s: %q, error %v; want %q", url, parent, got, err, want)
			}
			a.git("config", "--remove-section", fmt.Sprintf("submodule.%d", i))
		}
	}
	// git would continue with a local path, which does not exist here.
	if got, err := git.RelativeURL("git@h:a/x", "../../../y"); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("too far up: %q, error %v", got, err)
	}
}

// URLs in .gitmodules follow the grammar and policy of locations. A commit without an entry in .gitmodules fails, as
// for git submodule update.
func TestBadSubmodules(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := newAuthor(t, root, "a.git")
	id := a.commit("a")
	s := serve(t, backend(t, root))
	for modules, test := range map[string]struct {
		is   error
		says string
	}{
		"":                                           {modproxy.ErrInvalid, "submodule \"sub\" has no URL in .gitmodules"},
		"path = sub":                                 {modproxy.ErrInvalid, "submodule \"sub\" has no URL in .gitmodules"},
		"path = sub/\nurl = https://h/x":             {modproxy.ErrInvalid, "submodule \"sub\" has no URL in .gitmodules"},
		"path = sub\nurl = ext::sh -c x":             {modproxy.ErrInvalid, "transport helper"},
		"path = sub\nurl = file:///etc":              {modproxy.ErrInvalid, "want https or ssh"},
		"path = sub\nurl = /etc":                     {modproxy.ErrInvalid, "want https or ssh"},
		"path = sub\nurl = git@h:x":                  {modproxy.ErrDenied, "no ssh key and known hosts are configured for h"},
		"path = sub\nurl = ../../none.git":           {modproxy.ErrNotFound, "no such repository"},
		"path = sub\nurl = ../../a.git/.git":         {modproxy.ErrNotFound, "no such commit"},
		"path = sub\nurl = https://h/x\nupdate = !x": {modproxy.ErrUnavailable, "update"},
		"path = sub\nurl = https://h/x\nupdate = no": {modproxy.ErrInvalid, "update"},
		"path\nurl = https://h/x":                    {modproxy.ErrInvalid, "has no value"},
		"[broken":                                    {modproxy.ErrInvalid, ".gitmodules cannot be read"},
	} {
		super := newAuthor(t, t.TempDir(), "super")
		if modules != "" {
			super.write(".gitmodules", "[submodule \"s\"]\n"+modules+"\n")
			super.git("add", ".gitmodules")
		}
		want := id
		if strings.Contains(test.says, "commit") {
			want = strings.Repeat("1", 40)
		}
		super.submodule("sub", want)
		super.git("commit", "-q", "-m", "super")
		a.git("fetch", "-q", super.dir, "+main:refs/heads/super")
		_, err := newFetcher(t).FetchURL(t.Context(), s.URL+"/a.git/.git?ref=super", files{})
		if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q: error %v", modules, err)
		}
	}
}
