package git_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch/git"
)

// A redirect is followed only to the address of a repository.
func TestRedirects(t *testing.T) {
	t.Parallel()
	bothWays(t, "", redirects)
}

func redirects(t *testing.T, f *git.Getter) {
	begin, direct := "/git-upload-pack", !f.Network.(*network).old
	if !direct {
		begin = "/info/refs?service=git-upload-pack"
	}
	for location, test := range map[string]struct {
		is   error
		says string
	}{
		"/x" + begin:                       {modproxy.ErrUnavailable, "more than 5 redirects"},
		"/login":                           {modproxy.ErrDenied, "not a repository"},
		"/x/info/refs":                     {modproxy.ErrDenied, "not a repository"},
		"/x/git-upload-pack?x":             {modproxy.ErrDenied, "not a repository"},
		"ext::sh" + begin:                  {modproxy.ErrDenied, "not a repository"},
		"file:///etc" + begin:              {modproxy.ErrInvalid, "another scheme"},
		"ssh://git@h/x" + begin:            {modproxy.ErrInvalid, "another scheme"},
		"http://-h/x" + begin:              {modproxy.ErrInvalid, "host"},
		"http://u:secret@h/x" + begin:      {modproxy.ErrInvalid, "password"},
		"http://h/--upload-pack=x" + begin: {modproxy.ErrInvalid, "path"},
		"http://h" + begin:                 {modproxy.ErrInvalid, "without a repository"},
		"http://h:x/" + begin:              {modproxy.ErrUnavailable, "not a URL"},
	} {
		var asked requests
		s := serve(t, asked.around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusMovedPermanently)
		})))
		_, err := f.FetchURL(t.Context(), s.URL+"/x", files{})
		if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v", location, err)
		}
		want := 1
		if location == "/x"+begin {
			want = 6
		} else if direct && !strings.HasSuffix(location, begin) {
			want = 2 // git is redirected, too
		}
		if n := len(asked.all()); n != want {
			t.Errorf("%s: %d requests, want %d", location, n, want)
		}
	}
}
