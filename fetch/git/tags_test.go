package git_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/git"
)

func sourceAt(url string) fetch.Source {
	return fetch.Source{Location: modproxy.Location{Getter: "git", URL: url}}
}

func TestTags(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := history(t, root, "sha1.git")
	wide := history(t, root, "sha256.git", "--object-format=sha256")
	a.git("tag", "aws/vpc/v1.0.0", "main~3")
	a.git("branch", "v7.0.0")                              // no tag
	a.git("update-ref", "refs/heads/refs/tags/v8", "HEAD") // a branch
	newAuthor(t, root, "empty.git")
	s := serveTLS(t, backend(t, root))
	commit := func(a author, ref string) string { return a.git("rev-parse", ref+"^{}") }
	bothWays(t, s.caFile, func(t *testing.T, f *git.Getter) {
		for _, test := range []struct {
			of       author
			url      string
			prefixes []string
			names    []string
		}{
			{a, "sha1.git", []string{""}, []string{"20240101", "20250101", "a-tree", "aws/vpc/v1.0.0", "both", "not-a-commit", "tag", "v1.0.0", "v2", "v2.0.0"}},
			{a, "sha1.git", []string{"v"}, []string{"v1.0.0", "v2", "v2.0.0"}},
			{a, "sha1.git", []string{"v2.0.0", "aws/vpc/v"}, []string{"aws/vpc/v1.0.0", "v2.0.0"}},
			{a, "sha1.git", []string{"v*"}, nil}, // no pattern
			{a, "sha1.git", []string{"v9"}, nil},
			{wide, "sha256.git", []string{"v"}, []string{"v1.0.0", "v2", "v2.0.0"}},
			{a, "empty.git", []string{""}, nil},
		} {
			var want []fetch.Tag
			for _, name := range test.names {
				want = append(want, fetch.Tag{Name: name, Commit: commit(test.of, "refs/tags/"+name)})
			}
			got, err := f.Tags(t.Context(), sourceAt(s.URL+"/"+test.url+"/.git?ref=main"), test.prefixes...)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s %q: error %v; the tags (-want +got):\n%s", test.url, test.prefixes, err, diff)
			}
		}
		if _, err := f.Tags(t.Context(), sourceAt(s.URL+"/none.git"), ""); !errors.Is(err, modproxy.ErrNotFound) {
			t.Errorf("no repository: error %v", err)
		}
	})
}

func TestTagsOverSSH(t *testing.T) {
	t.Parallel()
	s, a := serveSSH(t), history(t, t.TempDir(), "a.git")
	f := s.fetcher(t, s.ClientKey, "git.test "+s.HostKey)
	got, err := f.Tags(t.Context(), sourceAt("ssh://"+s.User+"@git.test"+a.dir+"/.git"), "v2")
	commit := a.git("rev-parse", "v2^{}")
	if diff := cmp.Diff([]fetch.Tag{{Name: "v2", Commit: commit}, {Name: "v2.0.0", Commit: commit}}, got); err != nil || diff != "" {
		t.Errorf("error %v\n%s; the tags (-want +got):\n%s", err, s.Logged(), diff)
	}
	if _, err := f.Tags(t.Context(), sourceAt("ssh://"+s.User+"@git.test"+a.dir+"-none"), "v2"); err == nil {
		t.Error("no error without a repository")
	}
}

// Every server's list is read within bounds, and never shortened.
func TestTagsOfHostileServers(t *testing.T) {
	t.Parallel()
	id, other := strings.Repeat("1", 40), strings.Repeat("2", 40)
	var many, long bytes.Buffer
	for i := range 50_001 {
		fmt.Fprintf(&many, "%s", line(fmt.Sprintf("%s refs/tags/v1.0.%d", id, i)))
	}
	for long.Len() < 17<<20 {
		fmt.Fprintf(&long, "%s", line(id+" refs/heads/"+strings.Repeat("x", 60_000)))
	}
	for name, test := range map[string]struct {
		lines string
		want  []fetch.Tag
		says  string // part of the error
	}{
		"all refs": {line(id+" HEAD") + line(id+" refs/heads/v3") + line(id+" refs/tags/w1") + line(id+" refs/tags/v1 peeled:"+other),
			[]fetch.Tag{{Name: "v1", Commit: other}}, ""},
		"names": {line(id+" refs/tags/v\x1b[2J") + line(id+" refs/tags/v/../x") + line(id+" refs/tags/v\xff"),
			[]fetch.Tag{{Name: "v\x1b[2J", Commit: id}, {Name: "v/../x", Commit: id}, {Name: "v\xff", Commit: id}}, ""},
		"twice the same":     {line(id+" refs/tags/v1") + line(id+" refs/tags/v1"), []fetch.Tag{{Name: "v1", Commit: id}}, ""},
		"twice":              {line(id+" refs/tags/v1") + line(other+" refs/tags/v1"), nil, `the tag "v1" twice`},
		"twice peeled":       {line(id+" refs/tags/v1 peeled:"+id) + line(id+" refs/tags/v1 peeled:"+other), nil, `the tag "v1" twice`},
		"peeled and written": {line(id+" refs/tags/v1 peeled:"+id) + line(other+" refs/tags/v1^{}"), nil, `the tag "v1" twice`},
		"too many":           {many.String(), nil, "more than 50000 tags match"},
		"too long":           {long.String(), nil, "the list of refs is larger than the 16777216 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
				io.WriteString(w, test.lines+"0000")
			}))
			got, err := newFetcher(t).Tags(t.Context(), sourceAt(s.URL+"/a.git"), "v")
			if test.says == "" {
				if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
					t.Errorf("error %v; the tags (-want +got):\n%s", err, diff)
				}
			} else if !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), test.says) || got != nil {
				t.Errorf("%d tags, error %v; want ErrInvalid: %s", len(got), err, test.says)
			}
		})
	}
}

// Every number of tags up to the bound is listed, by requests of this package and by git.
func TestManyTags(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := newAuthor(t, root, "a.git")
	commit := a.commit("first")
	var packed strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&packed, "%s refs/tags/v1.%04d.0\n", commit, i)
	}
	a.write(filepath.Join(".git", "packed-refs"), packed.String())
	s := serveTLS(t, backend(t, root))
	bothWays(t, s.caFile, func(t *testing.T, f *git.Getter) {
		got, err := f.Tags(t.Context(), sourceAt(s.URL+"/a.git/.git"), "v")
		if err != nil || len(got) != 5_000 || got[4_999] != (fetch.Tag{Name: "v1.4999.0", Commit: commit}) {
			t.Errorf("%d tags, error %v", len(got), err)
		}
	})
}

// A server that ends the connection before its answer has given none. OnAnswer is called for an answer to a request of this package.
func TestTagsNoAnswer(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	history(t, root, "a.git")
	good := backend(t, root)
	s := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/ends") {
			panic(http.ErrAbortHandler)
		}
		good.ServeHTTP(w, r)
	}))
	_, err := old(newFetcherTrusting(t, s.caFile)).Tags(t.Context(), sourceAt(s.URL+"/ends/a.git"), "v")
	if none, ok := errors.AsType[*fetch.NoAnswer](err); !ok || none.Why != "it did not answer git" || !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("an ended connection: error %v", err)
	}
	for _, f := range []*git.Getter{newFetcherTrusting(t, s.caFile), old(newFetcherTrusting(t, s.caFile))} {
		from, answers := sourceAt(s.URL+"/a.git/.git"), 0
		from.OnAnswer = func() { answers++ }
		_, err := f.Tags(t.Context(), from, "v")
		if direct := f.Network.(*network).posts > 0; err != nil || (answers == 1) != direct {
			t.Errorf("direct %t: %d answers, error %v", direct, answers, err)
		}
	}
}

// No git is started for a repository that does not exist, or that denies access. A page is not a list without tags.
func TestTagsOfNoRepository(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		want   error
		byGit  bool
	}{
		"not found":       {404, "no such repository", modproxy.ErrNotFound, false},
		"gone":            {410, "", modproxy.ErrNotFound, false},
		"forbidden":       {403, "", modproxy.ErrDenied, false},
		"unauthorized":    {401, "", modproxy.ErrDenied, false},
		"page":            {200, "<html>we are back soon</html>", modproxy.ErrUnavailable, true},
		"page with lines": {200, "<html>\nwe are back soon\n</html>\n", modproxy.ErrUnavailable, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen requests
			s := serve(t, seen.around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			})))
			f := newFetcher(t)
			for range 2 {
				begin := len(seen.all())
				if tags, err := f.Tags(t.Context(), sourceAt(s.URL+"/a.git/.git"), "v"); !errors.Is(err, test.want) || tags != nil {
					t.Errorf("%d tags, error %v; want %v", len(tags), err, test.want)
				}
				byGit := false
				for _, r := range seen.all()[begin:] {
					byGit = byGit || r.UserAgent() != "git/modproxy"
				}
				if asked := seen.asked()[begin:]; byGit != test.byGit || asked[0] != post {
					t.Errorf("asked %q, by git: %t", asked, byGit)
				}
			}
		})
	}
}
