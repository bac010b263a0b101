package git_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy/fetch/git"
)

// getter returns the files that clone produces.
func getter(t testing.TB, url, ref string, env ...string) files {
	t.Helper()
	return workTree(t, clone(t, url, ref, env...))
}

// clone does what the clients do for git:: addresses (go-getter, get_git.go): clone, resolve, checkout, submodules.
func clone(t testing.TB, url, ref string, env ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "clone")
	run := func(dir string, args ...string) {
		if _, err := tryGit(dir, env, args...); err != nil {
			t.Fatal(err)
		}
	}
	run("/", "clone", "-q", "--", url, dir)
	if ref != "" {
		run(dir, "checkout", "-q", resolve(dir, ref))
	}
	run(dir, "submodule", "update", "--init", "--recursive")
	return dir
}

// resolve returns the commit that the clients find for ref in a clone, or an empty string.
func resolve(clone, ref string) string {
	for _, candidate := range []string{ref, "refs/remotes/origin/" + ref, "refs/tags/" + ref} {
		if id, err := tryGit(clone, nil, "rev-parse", "--verify", "--quiet", "--end-of-options",
			candidate+"^{commit}"); err == nil {
			return id
		}
	}
	return ""
}

// thorny writes a repository with everything that a tree can have.
func thorny(t testing.TB, root string) author {
	a := newAuthor(t, root, "thorny.git")
	a.write("main.tf", "terraform {}\n")
	a.write("scripts/run.sh!", "#!/bin/sh\n")
	a.write("link.tf", "->main.tf")
	a.write("modules/dir", "->../scripts")
	a.write("dangling", "->nowhere")
	a.write(".gitattributes", strings.Join([]string{
		"*.crlf text eol=crlf", "*.auto text=auto", "*.id ident", "*.u16 text working-tree-encoding=UTF-16LE",
		"*.bin filter=lfs diff=lfs merge=lfs -text", "docs export-ignore", "*.subst export-subst",
		"[attr]hidden export-ignore", "*.hide hidden", ".gitattributes export-ignore", ""}, "\n"))
	a.write("docs/README.md", "kept although export-ignore\n")
	a.write("deep/.gitattributes", "* export-ignore export-subst\n")
	a.write("deep/a.txt", "$Format:%H$\n")
	a.write("a.hide", "hidden by a macro\n")
	a.write("v.subst", "$Format:%H %an$\n")
	a.write("dos.crlf", "one\ntwo\n")
	a.write("dos.auto", "one\r\ntwo\r\n")
	a.write("ident.id", "$Id$\n")
	a.write("wide.u16", "h\x00i\x00\n\x00")
	a.write("big.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:"+strings.Repeat("0", 64)+"\nsize 12\n")
	a.write("caf\u00e9.tf", "NFC\n")
	a.write("cafe\u0301.tf", "NFD\n")
	a.write("latin\xe9.txt", "not UTF-8\n")
	a.write("empty", "")
	a.write(strings.Repeat("long/", 30)+strings.Repeat("name", 50), "path of more than 256 bytes\n")
	a.write("target", "->"+strings.Repeat("x/", 100)+"y")
	a.write("-dash", "not an option\n")
	a.write("space and\ttab\nline", "odd name\n")
	a.write("Case", "C\n")
	a.write("case", "c\n")
	a.commit("thorny")
	return a
}

func TestFilesAreThoseOfAClone(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	thorny(t, root)
	plain := thorny(t, filepath.Join(root, "plain")) // without attributes
	plain.git("rm", "-q", ".gitattributes", "deep/.gitattributes")
	plain.commit("plain")
	empty := newAuthor(t, root, "empty.git")
	empty.commit("nothing")
	submodules(t, root)
	http := serve(t, backend(t, root))
	tls := serveTLS(t, backend(t, root))
	for repository, servers := range map[string][]server{"thorny.git": {http, tls}, "plain/thorny.git": {http},
		"empty.git": {http}, "super.git": {tls}} {
		for _, s := range servers {
			var env []string
			if s.caFile != "" {
				env = []string{"GIT_SSL_CAINFO=" + s.caFile}
			}
			url := s.URL + "/" + repository + "/.git"
			want := getter(t, url, "", env...)
			bothWays(t, s.caFile, func(t *testing.T, f *git.Getter) {
				got := files{}
				if _, err := f.FetchURL(t.Context(), url, got); err != nil {
					t.Error(err)
				} else if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: a clone (-) is not what was fetched (+):\n%s", url, diff)
				}
				if left, _ := filepath.Glob(f.Dir + "/*"); len(left) > 0 {
					t.Errorf("%s left behind", left)
				}
			})
		}
	}
}

// submodules writes super.git with several submodules: by relative URLs, by an absolute URL with its own path, one with
// a submodule of its own, and one that is not to be fetched.
func submodules(t testing.TB, root string) author {
	leaf := newAuthor(t, root, "leaf.git")
	leaf.write("leaf.tf", "old\n")
	old := leaf.commit("old")
	leaf.write("leaf.tf", "new\n")
	leaf.write("run!", "\n")
	leaf.commit("new")
	middle := newAuthor(t, root, "middle.git")
	middle.write("middle.tf", "middle\n")
	middle.write(".gitmodules", "[submodule \"leaf\"]\n\tpath = inner/leaf\n\turl = ../../leaf.git/.git\n")
	middle.submodule("inner/leaf", old)
	middle.git("add", ".gitmodules", "middle.tf")
	middle.git("commit", "-q", "-m", "middle")
	super := newAuthor(t, root, "super.git")
	super.write("super.tf", "super\n")
	super.write("shared", "->third_party/middle/middle.tf")
	super.write(".gitmodules", `[submodule "a name"]
	path = third_party/middle
	url = https://first.example/is-overridden.git
	url = ../../middle.git/.git
	update = rebase
[submodule "unwanted"]
	path = unwanted
	url = https://never.example/asked.git
	update = none
[submodule "elsewhere"]
	path = not/in/the/tree
	url = https://never.example/asked.git
`)
	super.submodule("third_party/middle", middle.git("rev-parse", "HEAD"))
	super.submodule("unwanted", old)
	super.git("add", ".gitmodules", "super.tf", "shared")
	super.git("commit", "-q", "-m", "super")
	return super
}
