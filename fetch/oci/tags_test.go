package oci_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

// names returns the names of the tags of corp/vpc at s.
func names(t *testing.T, s *site, prefixes ...string) (all []string, err error) {
	t.Helper()
	tags, err := newGetter(t).Tags(t.Context(), source(t, "oci://"+s.host+"/corp/vpc"), prefixes...)
	for _, tag := range tags {
		all = append(all, tag.Name)
	}
	return all, err
}

// A real registry lists its tags page by page.
func TestTags(t *testing.T) {
	registry := start(t, t.TempDir(), "tags: {maxtags: 5}\n")
	archive := zipped(t, "main.tf", "")
	var want []string
	for i := range 12 {
		want = append(want, fmt.Sprintf("v1.%d.0", i))
		push(t, registry, "corp/vpc", want[i], archive)
	}
	push(t, registry, "corp/vpc", "latest", archive)
	slices.Sort(want)
	s := front(t, registry)
	got, err := names(t, s, "v", "1.")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("tags %q, error %v", got, err)
	}
	if n := len(s.sent()); n != 3 {
		t.Errorf("%d requests, want 3 pages", n)
	}
	if got, err := names(t, s, "x"); err != nil || len(got) > 0 {
		t.Errorf("tags %q, error %v", got, err)
	}
	_, err = newGetter(t).Tags(t.Context(), source(t, "oci://"+s.host+"/corp/none"), "")
	if !errors.Is(err, modproxy.ErrNotFound) {
		t.Errorf("without a repository: error %v", err)
	}
}

// A hostile or odd list is an error, and never a truncated list.
func TestOddTagLists(t *testing.T) {
	page := func(n int) string {
		var b strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&b, `,"t%d.%d"`, n, i)
		}
		return `{"tags":[` + b.String()[1:] + `]}`
	}
	next := func(w http.ResponseWriter, r *http.Request, body string) {
		n := 0
		fmt.Sscan(r.FormValue("last"), &n)
		w.Header().Set("Link", fmt.Sprintf(`</v2/corp/vpc/tags/list?n=1000&last=%d>; rel="next"`, n+1))
		if body == "" {
			body = page(n)
		}
		fmt.Fprint(w, body)
	}
	long := `{"tags":["` + strings.Repeat("a", 1<<20) + `"]}`
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		is     error // nil for an empty list
	}{
		"null":  {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"name":"x","tags":null}`) }, nil},
		"twice": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"tags":["x","x"]}`) }, nil},
		"other link": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", `</x>; rel="prev"`)
			fmt.Fprint(w, `{}`)
		}, nil},
		"no JSON":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `<html>`) }, modproxy.ErrInvalid},
		"odd name":  {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"tags":["a\u001b[2J"]}`) }, modproxy.ErrInvalid},
		"path":      {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"tags":["../../x"]}`) }, modproxy.ErrInvalid},
		"long name": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, long) }, modproxy.ErrInvalid},
		"same link": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", `<?n=1000>; rel=next`)
			fmt.Fprint(w, `{}`)
		}, modproxy.ErrInvalid},
		"bad link": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", `<https://%zz>; rel=next`)
			fmt.Fprint(w, `{}`)
		}, modproxy.ErrInvalid},
		"endless tags":  {func(w http.ResponseWriter, r *http.Request) { next(w, r, "") }, modproxy.ErrInvalid},
		"endless pages": {func(w http.ResponseWriter, r *http.Request) { next(w, r, `{"tags":[]}`) }, modproxy.ErrUnavailable},
		"many bytes":    {func(w http.ResponseWriter, r *http.Request) { next(w, r, `{"x":"`+strings.Repeat("a", 4<<20)+`"}`) }, modproxy.ErrInvalid},
		"failing":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotImplemented) }, modproxy.ErrUnavailable},
		"forbidden":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, modproxy.ErrDenied},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, test.answer)
			got, err := names(t, s, "")
			if test.is == nil && (err != nil || len(got) > 1) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("%d tags, error %.200v, want %v", len(got), err, test.is)
			}
		})
	}
}

// Only the query of a link is used: no other host is asked.
func TestLinkToAnotherHost(t *testing.T) {
	other := newSite(t, http.NotFound)
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("last") == "" {
			w.Header().Set("Link", "<"+other.URL+"/x?last=a>; rel=\"next\"")
		}
		fmt.Fprintf(w, `{"tags":["a%s"]}`, r.FormValue("last"))
	})
	got, err := names(t, s, "")
	if want := []string{"a", "aa"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("tags %q, error %v", got, err)
	}
	if len(other.sent()) > 0 {
		t.Error("the other host received a request")
	}
}
