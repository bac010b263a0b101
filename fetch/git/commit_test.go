package git_test

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch/git"
)

// Commit returns the commit that Fetch would fetch.
func TestCommit(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := history(t, root, "sha1.git")
	history(t, root, "sha256.git", "--object-format=sha256")
	bare := filepath.Join(root, "dumb")
	runGit(t, "/", "clone", "-q", "--bare", a.dir, bare)
	runGit(t, bare, "update-server-info")
	smart := serve(t, backend(t, root))
	dumb := serve(t, http.FileServer(http.Dir(root)))
	bothWays(t, "", func(t *testing.T, f *git.Getter) { commits(t, f, a, smart, dumb) })
}

func commits(t *testing.T, f *git.Getter, a author, smart, dumb server) {
	whole := a.git("rev-parse", "main~2")
	urls := []string{smart.URL + "/sha1.git/.git"}
	if !f.Network.(*network).old { // git sends all requests to the others in any case
		urls = append(urls, smart.URL+"/sha256.git/.git", dumb.URL+"/dumb")
	}
	for _, url := range urls {
		for _, ref := range []string{"", "main", "v1.0.0", "v2.0.0", "v2", "20240101", "both", "feature/x",
			"refs/tags/v1.0.0"} {
			want, err := f.FetchURL(t.Context(), url+"?ref="+ref, files{})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := f.CommitURL(t.Context(), url+"?ref="+ref); err != nil || got != want {
				t.Errorf("%s ref %q is %s, %v; a fetch brings %s", url, ref, got, err, want)
			}
		}
	}
	url := smart.URL + "/sha1.git/.git?ref="
	if got, err := f.CommitURL(t.Context(), url+strings.ToUpper(whole)); err != nil || got != whole {
		t.Errorf("a whole id is %s, %v", got, err)
	}
	if got, err := f.CommitURL(t.Context(), url+whole[:9]); err != nil || got != "" {
		t.Errorf("an abbreviated id is %s, %v; only a fetch can tell", got, err)
	}
	for _, bad := range []string{url + "v9", smart.URL + "/none.git"} {
		if got, err := f.CommitURL(t.Context(), bad); !errors.Is(err, modproxy.ErrNotFound) {
			t.Errorf("%s = %s, %v; want ErrNotFound", bad, got, err)
		}
	}
	if _, err := f.CommitURL(t.Context(), "https://git.example.com/x.git?ref=-x"); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("an invalid ref: %v", err)
	}
}
