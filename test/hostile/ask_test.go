//go:build linux

package hostile_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"

	"github.com/modproxy/modproxy/test/registrytest"
)

// plain requests without a proxy, follows no redirect, and keeps no connection.
var plain = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       2 * time.Minute,
}

// ask sends one request and reads the whole answer. It checks what must hold for every answer.
func (p *proxy) ask(method, path string, headers ...string) rig.Answer {
	p.t.Helper()
	a, err := p.try(context.Background(), method, path, headers...)
	if err != nil {
		p.t.Errorf("%s %.200s: %v", method, path, err)
	}
	return a
}

func (p *proxy) try(ctx context.Context, method, path string, headers ...string) (rig.Answer, error) {
	r, err := rig.NewRequest(ctx, method, p.url+path, headers...)
	if err != nil {
		return rig.Answer{}, err
	}
	if p.shown != "" && r.Header["Authorization"] == nil {
		r.Header.Set("Authorization", p.shown)
	}
	if r.Header.Get("Authorization") == "" {
		r.Header.Del("Authorization")
	}
	p.count(1)
	a := rig.Do(cmp.Or(p.client, plain), r)
	if a.Err == nil {
		p.hold(method, path, a)
	}
	return a, a.Err
}

// keepConnections lets a test with very many requests keep its connections open until it ends.
func (p *proxy) keepConnections(t *testing.T) {
	connections := &http.Transport{DisableCompression: true}
	p.client = &http.Client{Transport: connections, CheckRedirect: plain.CheckRedirect, Timeout: plain.Timeout}
	t.Cleanup(func() {
		p.client = nil
		connections.CloseIdleConnections()
	})
}

// count expects n more lines in the log.
func (p *proxy) count(n int) {
	p.mu.Lock()
	p.asked += n
	p.mu.Unlock()
}

// hold checks what must hold for every answer: it has no secret, packages never change, and errors have the one form of errors.
func (p *proxy) hold(method, path string, a rig.Answer) {
	p.t.Helper()
	var header bytes.Buffer
	a.Header.Write(&header)
	for _, secret := range secrets {
		if bytes.Contains(header.Bytes(), []byte(secret)) || bytes.Contains(a.Body, []byte(secret)) {
			p.t.Errorf("%s %s: the answer has the secret %s\n%s%.2000s", method, path, secret, &header, a.Body)
		}
	}
	if a.Status >= 400 && method != http.MethodHead {
		var said struct{ Errors []string }
		if err := json.Unmarshal(a.Body, &said); err != nil || len(said.Errors) != 1 || said.Errors[0] == "" {
			p.t.Errorf("%s %s: %d without one clear error: %.500q, %v", method, path, a.Status, a.Body, err)
		}
	}
	if a.Status != http.StatusOK || method != http.MethodGet || !strings.HasSuffix(path, ".tar.gz") && !strings.HasSuffix(path, ".zip") {
		return
	}
	if a.Length != int64(len(a.Body)) {
		p.t.Errorf("%s %s: %d bytes, and a Content-Length of %d", method, path, len(a.Body), a.Length)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(a.Body))
	p.mu.Lock()
	defer p.mu.Unlock()
	if first, ok := p.packages[path]; ok && first != digest {
		p.t.Errorf("%s %s: other bytes than the first time", method, path)
	}
	p.packages[path] = digest
}

func (p *proxy) status(path string) int { return p.ask(http.MethodGet, path).Status }

// install installs a version as a client does. It returns the answer with the package, or the answer that refused it.
func (p *proxy) install(m module, version string) rig.Answer {
	p.t.Helper()
	a := p.ask(http.MethodGet, m.path(version+"/download"))
	for a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") == "1" {
		time.Sleep(time.Second)
		a = p.ask(http.MethodGet, m.path(version+"/download"))
	}
	if a.Status != http.StatusNoContent {
		return a
	}
	to, _, _ := strings.Cut(strings.TrimPrefix(a.Header.Get("X-Terraform-Get"), p.url), "?")
	if i := strings.Index(to, "//"); i > 0 {
		to = to[:i]
	}
	if !strings.HasPrefix(to, "/") {
		p.t.Errorf("the package of %v is said to be at %q", m, a.Header.Get("X-Terraform-Get"))
		return a
	}
	return p.ask(http.MethodGet, to)
}

// mustInstall is install, and fails the test on an error.
func (p *proxy) mustInstall(m module, version string) map[string]file {
	p.t.Helper()
	a := p.install(m, version)
	if a.Status != http.StatusOK {
		p.t.Fatalf("%v %s: %d: %s", m, version, a.Status, a.Said())
	}
	return unpack(p.t, a.Body)
}

// refuse checks that a version cannot be installed, that the client gets a matching reason, at once and later, and that the world is
// unchanged.
func (p *proxy) refuse(t testing.TB, m module, version, why string) {
	t.Helper()
	first := p.install(m, version)
	again := p.ask(http.MethodGet, m.path(version+"/download"))
	for i, a := range []rig.Answer{first, again} {
		if a.Status < 400 || a.Status == http.StatusNotFound || a.Status == http.StatusInternalServerError {
			t.Errorf("ask %d: %d; want a refusal: %s", i, a.Status, a.Said())
			continue
		}
		if !regexp.MustCompile(why).MatchString(a.Said()) {
			t.Errorf("ask %d: %d %q; want words that match %q", i, a.Status, a.Said(), why)
		}
	}
}

// trusting is a client for the servers of the world.
func trusting() *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(registrytest.CA().PEM)
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true},
		Timeout:   time.Minute,
	}
}
