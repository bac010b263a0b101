package oci_test

import (
	"archive/zip"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/oci"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
)

// start starts a real registry on dir, until the test ends.
func start(t *testing.T, dir, config string) *registrytest.OCIRegistry {
	t.Helper()
	if _, err := os.Stat(registrytest.OCIProgram()); err != nil {
		rig.Missing(t, "%v: tools/build-registry.sh builds it", err)
	}
	r, err := registrytest.StartOCI(dir, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// site is a server with TLS that records requests. handle may be changed before the first request.
type site struct {
	*httptest.Server
	host   string
	handle http.HandlerFunc

	mu       sync.Mutex
	requests []*http.Request
}

func newSite(t *testing.T, handle http.HandlerFunc) *site {
	t.Helper()
	s := &site{handle: handle}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Clone(r.Context()))
		s.mu.Unlock()
		s.handle(w, r)
	}))
	config, err := registrytest.CA().ServerConfig("127.0.0.1", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = config
	s.StartTLS()
	t.Cleanup(s.Close)
	s.host = strings.TrimPrefix(s.URL, "https://")
	return s
}

// front returns a site in front of a real registry.
func front(t *testing.T, r *registrytest.OCIRegistry) *site {
	proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(r.URL); p.SetXForwarded() }}
	return newSite(t, proxy.ServeHTTP)
}

// sent returns the recorded requests, and forgets them.
func (s *site) sent() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.requests
	s.requests = nil
	return all
}

func newGetter(t *testing.T, credentials ...fetch.Credential) *oci.Getter {
	t.Helper()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, registrytest.CA().PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := egress.New(egress.Config{Allow: []string{"127.0.0.1", "localhost"}, CAFile: ca, NoHedging: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	return &oci.Getter{Egress: out, Credentials: credentials, Scratch: dir, MaxReceived: 1 << 20}
}

// get downloads a package with a table that has only g.
func get(t *testing.T, g *oci.Getter, location string) (*modproxy.Package, error) {
	t.Helper()
	table := &fetch.Table{Getters: map[string]fetch.Getter{"oci": g}, Scratch: t.TempDir(), Limits: pack.Limits{Bytes: 1 << 20}}
	p, err := table.Package(t.Context(), source(t, location))
	if err == nil {
		t.Cleanup(func() { p.Close() })
	}
	return p, err
}

func source(t testing.TB, location string) fetch.Source {
	t.Helper()
	l, err := modproxy.ParseLocation(location, nil)
	if err != nil {
		t.Fatal(err)
	}
	return fetch.Source{Location: l, Module: modproxy.Address{Host: "modules.test", Namespace: "corp", Name: "vpc", System: "aws"}}
}

// zipped returns a zip archive with files, in pairs of name and content.
func zipped(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		if err == nil {
			_, err = io.WriteString(w, files[i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func push(t *testing.T, r *registrytest.OCIRegistry, repository, tag string, archive []byte) (digest string) {
	t.Helper()
	digest, err := r.Push(repository, tag, archive)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func TestFetch(t *testing.T) {
	registry := start(t, t.TempDir(), "")
	digest := push(t, registry, "corp/vpc", "1.0.0", zipped(t, "main.tf", "# 1", "modules/x/main.tf", "# x"))
	push(t, registry, "corp/vpc", "latest", zipped(t, "main.tf", "# latest"))
	s, g := front(t, registry), newGetter(t)
	at := "oci://" + s.host + "/corp/vpc"
	byTag, err := get(t, g, at+"//modules/x?tag=1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	want := modproxy.Source{URL: at, Commit: strings.TrimPrefix(digest, "sha256:")}
	if byTag.Source != want || byTag.Subdir != "modules/x" {
		t.Errorf("source %+v and subdirectory %q, want %+v", byTag.Source, byTag.Subdir, want)
	}
	if requests := s.sent(); len(requests) != 2 {
		t.Errorf("%d requests, want one for the manifest and one for the layer", len(requests))
	}
	byDigest, err := get(t, g, at+"?digest="+digest)
	if err != nil || byDigest.Sum != byTag.Sum || byDigest.Source != want {
		t.Fatalf("by digest: %+v, error %v", byDigest, err)
	}
	latest, err := get(t, g, at)
	if err != nil || latest.Sum == byTag.Sum {
		t.Fatalf("without a tag: %+v, error %v", latest, err)
	}
	again := source(t, modproxy.Record{Source: latest.Source}.Location().String())
	commit, err := g.Commit(t.Context(), again)
	if err != nil || commit != latest.Source.Commit {
		t.Errorf("the recorded location %s has commit %q, error %v", again.URL, commit, err)
	}
	moved := source(t, at+"?tag=latest")
	moved.Commit = want.Commit
	table := &fetch.Table{Getters: map[string]fetch.Getter{"oci": g}, Scratch: t.TempDir(), Limits: pack.Limits{Bytes: 1 << 20}}
	p, err := table.Package(t.Context(), moved)
	if err != nil || p.Sum != byTag.Sum {
		t.Fatalf("a tag at a commit: %+v, error %v", p, err)
	}
	p.Close()
}
