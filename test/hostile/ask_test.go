//go:build linux

package hostile_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/registrytest"
)

// answer is a whole answer of modproxy.
type answer struct {
	status int
	header http.Header
	body   []byte
	took   time.Duration
}

// plain asks modproxy: no proxy, no redirect, no connection that is left open.
var plain = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       2 * time.Minute,
}

// ask sends one request and reads its answer to the end. What must hold of every
// answer is checked here.
func (p *proxy) ask(method, path string, headers ...string) answer {
	p.t.Helper()
	a, err := p.try(context.Background(), method, path, headers...)
	if err != nil {
		p.t.Errorf("%s %.200s: %v", method, path, err)
	}
	return a
}

func (p *proxy) try(ctx context.Context, method, path string, headers ...string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, p.url+path, nil)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	if p.shown != "" && r.Header["Authorization"] == nil {
		r.Header.Set("Authorization", p.shown)
	}
	if r.Header.Get("Authorization") == "" {
		r.Header.Del("Authorization")
	}
	started := time.Now()
	p.count(1)
	res, err := plain.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	a := answer{res.StatusCode, res.Header, body, time.Since(started)}
	if err != nil {
		return a, fmt.Errorf("the body: %w", err)
	}
	p.hold(method, path, a, res.ContentLength)
	return a, nil
}

// count expects more lines in the log.
func (p *proxy) count(n int) {
	p.mu.Lock()
	p.asked += n
	p.mu.Unlock()
}

// hold checks what holds of every answer: nothing secret, no package that is
// another than before, errors in the one form that errors have.
func (p *proxy) hold(method, path string, a answer, length int64) {
	p.t.Helper()
	var header bytes.Buffer
	a.header.Write(&header)
	for _, secret := range secrets {
		if bytes.Contains(header.Bytes(), []byte(secret)) || bytes.Contains(a.body, []byte(secret)) {
			p.t.Errorf("%s %s: the answer has the secret %s\n%s%.2000s", method, path, secret, &header, a.body)
		}
	}
	if a.status >= 400 && method != http.MethodHead {
		var said struct{ Errors []string }
		if err := json.Unmarshal(a.body, &said); err != nil || len(said.Errors) != 1 || said.Errors[0] == "" {
			p.t.Errorf("%s %s: %d without one clear error: %.500q, %v", method, path, a.status, a.body, err)
		}
	}
	if a.status != http.StatusOK || method != http.MethodGet || !strings.HasSuffix(path, ".tar.gz") {
		return
	}
	if length != int64(len(a.body)) {
		p.t.Errorf("%s %s: %d bytes, and a Content-Length of %d", method, path, len(a.body), length)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(a.body))
	p.mu.Lock()
	defer p.mu.Unlock()
	if first, ok := p.packages[path]; ok && first != digest {
		p.t.Errorf("%s %s: other bytes than the first time", method, path)
	}
	p.packages[path] = digest
}

func (p *proxy) status(path string) int { return p.ask(http.MethodGet, path).status }

// said is the text of an error.
func (a answer) said() string {
	var said struct{ Errors []string }
	if json.Unmarshal(a.body, &said) != nil {
		return string(a.body)
	}
	return strings.Join(said.Errors, "\n")
}

// install asks as a client does that installs a version, and returns the package,
// or the answer that refused it.
func (p *proxy) install(m module, version string) answer {
	p.t.Helper()
	a := p.ask(http.MethodGet, m.path(version+"/download"))
	for a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "1" {
		time.Sleep(time.Second)
		a = p.ask(http.MethodGet, m.path(version+"/download"))
	}
	if a.status != http.StatusNoContent {
		return a
	}
	to, _, _ := strings.Cut(strings.TrimPrefix(a.header.Get("X-Terraform-Get"), p.url), "?")
	if i := strings.Index(to, "//"); i > 0 {
		to = to[:i]
	}
	if !strings.HasPrefix(to, "/") {
		p.t.Errorf("the package of %v is said to be at %q", m, a.header.Get("X-Terraform-Get"))
		return a
	}
	return p.ask(http.MethodGet, to)
}

// mustInstall is install, and has to succeed.
func (p *proxy) mustInstall(m module, version string) map[string]file {
	p.t.Helper()
	a := p.install(m, version)
	if a.status != http.StatusOK {
		p.t.Fatalf("%v %s: %d: %s", m, version, a.status, a.said())
	}
	return unpack(p.t, a.body)
}

// refuse wants that a version cannot be installed, that the client is told why in
// words that match, at the time and afterwards, and that the world is as it was.
func (p *proxy) refuse(t testing.TB, m module, version, why string) {
	t.Helper()
	first := p.install(m, version)
	again := p.ask(http.MethodGet, m.path(version+"/download"))
	for i, a := range []answer{first, again} {
		if a.status < 400 || a.status == http.StatusNotFound || a.status == http.StatusInternalServerError {
			t.Errorf("ask %d: %d; want a refusal: %s", i, a.status, a.said())
			continue
		}
		if !regexp.MustCompile(why).MatchString(a.said()) {
			t.Errorf("ask %d: %d %q; want words that match %q", i, a.status, a.said(), why)
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
