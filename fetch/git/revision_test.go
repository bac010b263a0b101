package git_test

import (
	"cmp"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch/git"
)

// history writes a repository with every kind of ref.
func history(t testing.TB, root, name string, options ...string) author {
	a := newAuthor(t, root, name, options...)
	one := func(n string) string { a.write("n.tf", n+"\n"); return a.commit(n) }
	one("first")
	a.git("tag", "v1.0.0")
	one("second")
	a.git("tag", "-a", "-m", "annotated", "v2.0.0")
	a.git("tag", "-a", "-m", "a tag of a tag", "v2", "v2.0.0")
	a.git("tag", "20240101")
	one("third")
	a.git("tag", "both")
	a.git("tag", "tag")
	a.git("checkout", "-q", "-b", "both")
	one("fourth")
	a.git("checkout", "-q", "-b", "feature/x")
	one("fifth")
	a.git("checkout", "-q", "-b", "v1.0.0+build")
	one("sixth")
	a.git("checkout", "-q", "main")
	one("seventh")
	blob := a.git("rev-parse", "HEAD:n.tf")
	a.git("tag", "not-a-commit", blob)
	a.git("tag", "20250101", blob)
	a.git("tag", "-a", "-m", "of a tree", "a-tree", "main^{tree}")
	return a
}

func TestRefs(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := history(t, root, "sha1.git")
	history(t, root, "sha256.git", "--object-format=sha256")
	notATip := a.git("rev-parse", "main~2")
	tagObject := a.git("rev-parse", "v2.0.0")
	wide := author{t, filepath.Join(root, "sha256.git")}.git("rev-parse", "main~2")
	bare := filepath.Join(root, "dumb")
	runGit(t, "/", "clone", "-q", "--bare", a.dir, bare)
	runGit(t, bare, "update-server-info")

	clones := map[string]string{}
	for _, url := range []string{"sha1.git/.git", "sha256.git/.git", "dumb"} {
		clones[url] = filepath.Join(t.TempDir(), "clone")
		runGit(t, "/", "clone", "-q", filepath.Join(root, url), clones[url])
	}
	smart := serve(t, backend(t, root))
	dumb := serve(t, http.FileServer(http.Dir(root)))
	bothWays(t, "", func(t *testing.T, f *git.Getter) { // for all at once
		t.Parallel()
		refs(t, f, clones, smart, dumb, notATip, tagObject, wide)
	})
}

func refs(t *testing.T, f *git.Getter, clones map[string]string, smart, dumb server, notATip, tagObject, wide string) {
	t.Cleanup(func() {
		if left, _ := os.ReadDir(f.Dir); len(left) > 0 {
			t.Errorf("%s left behind", left)
		}
	})
	for _, test := range []struct {
		url, ref string
		found    bool
	}{
		{"sha1.git/.git", "", true},
		{"sha1.git/.git", "HEAD", true},
		{"sha1.git/.git", "main", true},
		{"sha1.git/.git", "v1.0.0", true},
		{"sha1.git/.git", "v2.0.0", true},
		{"sha1.git/.git", "v2", true},
		{"sha1.git/.git", "20240101", true},
		{"sha1.git/.git", "both", true},
		{"sha1.git/.git", "tag", true},
		{"sha1.git/.git", "feature/x", true},
		{"sha1.git/.git", "origin/feature/x", true},
		{"sha1.git/.git", "tags/v1.0.0", true},
		{"sha1.git/.git", "refs/tags/v1.0.0", true},
		{"sha1.git/.git", "v1.0.0%2Bbuild", true},
		{"sha1.git/.git", notATip, true},
		{"sha1.git/.git", strings.ToUpper(notATip), true},
		{"sha1.git/.git", notATip[:9], true},
		{"sha1.git/.git", "v2.0.0-1-g" + notATip[:7], true},
		{"sha1.git/.git", tagObject, true},
		{"sha1.git/.git", "v9", false},
		{"sha1.git/.git", "not-a-commit", false},
		{"sha1.git/.git", "20250101", false},
		{"sha1.git/.git", "a-tree", false},
		{"sha1.git/.git", "facade", false},
		{"sha1.git/.git", "origin/none", false},
		{"sha1.git/.git", strings.Repeat("1", 40), false},
		{"sha256.git/.git", "", true},
		{"sha256.git/.git", "both", true},
		{"sha256.git/.git", wide, true},
		{"sha256.git/.git", wide[:9], true},
		{"sha256.git/.git", "v9", false},
		{"none.git", "v1.0.0", false},
		{"dumb", "", true},
		{"dumb", "v2.0.0", true},
		{"dumb", "both", true},
		{"dumb", notATip, true},
		{"dumb", notATip[:9], true},
		{"dumb", "v9", false},
	} {
		t.Run(test.url+"_"+test.ref, func(t *testing.T) {
			t.Parallel()
			url := smart.URL
			if test.url == "dumb" {
				url = dumb.URL
			}
			url += "/" + test.url
			want := ""
			if clone := clones[test.url]; clone != "" {
				want = resolve(clone, cmp.Or(strings.ReplaceAll(test.ref, "%2B", "+"), "HEAD"))
			}
			if (want != "") != test.found {
				t.Fatalf("in a clone it is %q", want)
			}
			commit, err := f.FetchURL(t.Context(), url+"?ref="+test.ref, files{})
			if test.found && (err != nil || commit != want) {
				t.Errorf("commit %s, in a clone %s, error %v", commit, want, err)
			}
			if !test.found && !errors.Is(err, modproxy.ErrNotFound) {
				t.Errorf("error %v is not ErrNotFound", err)
			}
		})
	}
}

// depth changes only how much history a clone would have.
func TestDepth(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := history(t, root, "a.git")
	s := serve(t, backend(t, root))
	for _, ref := range []string{"", "v1.0.0", a.git("rev-parse", "main~1")} {
		plain, deep := files{}, files{}
		f := newFetcher(t)
		one, err := f.FetchURL(t.Context(), s.URL+"/a.git/.git?ref="+ref, plain)
		if err != nil {
			t.Fatal(err)
		}
		two, err := f.FetchURL(t.Context(), s.URL+"/a.git/.git?depth=3&ref="+ref, deep)
		if err != nil || one != two {
			t.Errorf("ref %q: commit %s, with depth %s, %v", ref, one, two, err)
		}
		if diff := gocmp.Diff(plain, deep); diff != "" {
			t.Errorf("ref %q: without depth (-) and with (+):\n%s", ref, diff)
		}
	}
}

// The error for a missing ref or commit names it.
func TestNotFoundIsNamed(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	history(t, root, "a.git")
	s := serve(t, backend(t, root))
	f := newFetcher(t)
	for url, want := range map[string]string{
		s.URL + "/a.git/.git?ref=v9": "git fetch " + s.URL + "/a.git/.git ref v9: not found: no such ref",
		s.URL + "/b.git?ref=v9": "git fetch " + s.URL + "/b.git ref v9: not found: no such repository: " +
			s.URL + " answered 404",
	} {
		if _, err := f.FetchURL(t.Context(), url, files{}); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// A version is one commit: the received bytes do not grow with the history.
func TestOneCommitIsFetched(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := newAuthor(t, root, "a.git")
	for range 8 {
		a.write("noise.tf", noise(64<<10))
		a.commit("noise")
	}
	s := serve(t, backend(t, root))
	f := newFetcher(t)
	f.Limits.Received = 128 << 10
	for _, ref := range []string{"", "main", a.git("rev-parse", "HEAD~4")} {
		if _, err := f.FetchURL(t.Context(), s.URL+"/a.git/.git?ref="+ref, files{}); err != nil {
			t.Error(err)
		}
	}
}
