package web_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/web"
	"github.com/modproxy/modproxy/pack"
)

// newGetter returns a getter that may connect to the TLS server s.
func newGetter(t *testing.T, s *httptest.Server) *web.Getter {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := egress.New(egress.Config{Allow: []string{"127.0.0.1"}, CAFile: ca, NoHedging: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	return &web.Getter{Egress: out, Scratch: t.TempDir(), MaxReceived: 1 << 20}
}

func fetchFrom(t *testing.T, g *web.Getter, s fetch.Source) (fetch.Result, *pack.Builder, error) {
	t.Helper()
	tree, err := pack.New(t.TempDir(), pack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	s.Budget = egress.NewBudget(10)
	got, err := g.Fetch(t.Context(), s, tree)
	return got, tree, err
}

func source(url string) fetch.Source {
	return fetch.Source{Location: modproxy.Location{Getter: "https", URL: url}}
}

func zipped(t *testing.T) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	if _, err := z.Create("main.tf"); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFetch(t *testing.T) {
	archive := zipped(t)
	sum := sha256.Sum256(archive)
	var busy, broken atomic.Int32
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/busy.zip":
			if busy.Add(1) <= 3 { // the number of attempts for one request
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
		case "/page":
			if r.URL.RawQuery != "a=1&terraform-get=1" {
				t.Errorf("the page is asked for with %q", r.URL.RawQuery)
			}
			w.Header().Set("X-Terraform-Get", "./x.zip//mod")
			return
		case "/breaks", "/breaks-once":
			if r.URL.Path == "/breaks" || broken.Add(1) == 1 {
				w.Header().Set("Content-Length", "1000")
				w.Write([]byte("<html>"))
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			w.Write([]byte(`<html><head><meta name="terraform-get" content="./x.zip"></head>`))
			return
		case "/none":
			return
		case "/gone.zip":
			w.WriteHeader(http.StatusGone)
			return
		}
		w.Write(archive)
	}))
	defer s.Close()
	g := newGetter(t, s)
	direct := source(s.URL + "/any?archive=false")
	direct.Direct = true
	atCommit := source(s.URL + "/x.zip")
	atCommit.Commit = "0a"
	for name, c := range map[string]struct {
		from      fetch.Source
		is        error
		immutable bool
		next      string
	}{
		"archive":              {source(s.URL + "/x.zip"), nil, false, ""},
		"by its query":         {source(s.URL + "/any?archive=zip"), nil, false, ""},
		"by its first bytes":   {direct, nil, false, ""},
		"after trouble":        {source(s.URL + "/busy.zip"), nil, false, ""},
		"by its checksum":      {source(s.URL + "/x.zip?checksum=sha256:" + hex.EncodeToString(sum[:])), nil, true, ""},
		"of another checksum":  {source(s.URL + "/x.zip?checksum=sha256:" + strings.Repeat("0a", 32)), modproxy.ErrInvalid, false, ""},
		"another format":       {source(s.URL + "/x.tar.gz"), modproxy.ErrInvalid, false, ""},
		"not there":            {source(s.URL + "/gone.zip"), modproxy.ErrNotFound, false, ""},
		"at a commit":          {atCommit, modproxy.ErrInvalid, false, ""},
		"elsewhere":            {source(s.URL + "/page?a=1"), nil, false, s.URL + "/x.zip//mod"},
		"a page breaks off":    {source(s.URL + "/breaks-once"), nil, false, s.URL + "/x.zip"},
		"each time":            {source(s.URL + "/breaks"), modproxy.ErrUnavailable, false, ""},
		"a page that says not": {source(s.URL + "/none"), modproxy.ErrInvalid, false, ""},
	} {
		got, tree, err := fetchFrom(t, g, c.from)
		if !errors.Is(err, c.is) || got.Immutable != c.immutable || (got.Next != nil) != (c.next != "") && err == nil {
			t.Errorf("%s: %+v, %v", name, got, err)
			continue
		}
		if _, passes := errors.AsType[*modproxy.Temporary](err); passes != (c.is == modproxy.ErrUnavailable) {
			t.Errorf("%s: trouble that may pass is %v: %v", name, passes, err)
		}
		if err != nil {
			continue
		}
		if got.Next != nil {
			if got.Next.String() != c.next {
				t.Errorf("%s: leads to %s", name, got.Next)
			}
		} else if packed, err := tree.Pack(&bytes.Buffer{}, ""); err != nil || packed.Size == 0 {
			t.Errorf("%s: %v", name, err)
		}
		if want, _, _ := strings.Cut(c.from.URL, "?"); got.From.URL != want {
			t.Errorf("%s: from %s", name, got.From.URL)
		}
	}
	if left, _ := os.ReadDir(g.Scratch); len(left) > 0 {
		t.Errorf("%s left behind", left)
	}
}

// The credential in the location takes precedence over the registry's own, and that over the configured one for the
// host and the module. A credential for another host is never sent.
func TestShown(t *testing.T) {
	archive := zipped(t)
	var shown atomic.Value
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown.Store(r.Header.Get("Authorization"))
		w.Write(archive)
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "https://")
	basic := func(user, password string) string {
		r := http.Request{Header: http.Header{}}
		r.SetBasicAuth(user, password)
		return r.Header.Get("Authorization")
	}
	own := []egress.Credential{{Origin: s.URL, Authorization: egress.NewSecret("Bearer own")}}
	configured := fetch.Credentials{{Host: host, Username: "u", Password: egress.NewSecret("p")}}
	for name, c := range map[string]struct {
		url         string
		own         []egress.Credential
		credentials fetch.Credentials
		want        string
	}{
		"nothing":           {s.URL, nil, nil, ""},
		"of the location":   {"https://a:b@" + host, own, configured, basic("a", "b")},
		"of the registry":   {s.URL, own, configured, "Bearer own"},
		"configured":        {s.URL, nil, configured, basic("u", "p")},
		"for another host":  {s.URL, nil, fetch.Credentials{{Host: "127.0.0.1", Password: egress.NewSecret("p")}}, ""},
		"a key and nothing": {s.URL, nil, fetch.Credentials{{Host: host, SSHKeyFile: "k", KnownHostsFile: "h"}}, ""},
	} {
		g := newGetter(t, s)
		g.Credentials = c.credentials
		from := source(c.url + "/x.zip")
		from.Own = c.own
		if _, _, err := fetchFrom(t, g, from); err != nil || shown.Load() != c.want {
			t.Errorf("%s: shown %q, %v; want %q", name, shown.Load(), err, c.want)
		}
	}
}
