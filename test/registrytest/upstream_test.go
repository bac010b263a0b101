package registrytest_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/test/registrytest"
)

const fixture = `
-- modules/acme/network/aws/v1.0.0 --
git::{url}/acme/network.git?ref={commit:acme/network.git@v1.0.0}
-- modules/acme/network/aws/1.1.0 --
200 json
/archives/network?archive=zip&checksum=sha256:{sha256:network.zip}
-- modules/acme/network/aws/1.2.0/main.tf --
output "host" { value = "{host}" }
-- modules/acme/network/aws/1.3.0 --
200 header
{url}/get/network
-- repos/acme/network.git@v1.0.0/main.tf --
output "version" { value = "1.0.0" }
-- repos/acme/network.git@v1.0.0/run.sh* --
#!/bin/sh
-- repos/acme/network.git@v1.0.0/linked.tf@ --
main.tf
-- repos/acme/network.git@v1.0.0/.gitmodules --
[submodule "shared"]
	path = shared
	url = ../parts.git
-- repos/acme/network.git@v1.0.0/shared= --
acme/parts.git@main
-- repos/acme/network.git@v1.10.0/main.tf --
output "version" { value = "1.10.0" }
-- repos/acme/network.git@v1.9.0/main.tf --
output "version" { value = "1.9.0" }
-- repos/acme/network.git@next/main.tf --
output "version" { value = "next" }
-- repos/acme/parts.git@main/shared.tf --
output "shared" { value = true }
-- archives/network.zip/main.tf --
output "zip" { value = true }
-- archives/network.zip/run.sh* --
#!/bin/sh
-- get/network --
{url}/meta/network
-- meta/network --
{url}/archives/network.zip
`

func client(t *testing.T) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(registrytest.CA().PEM)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask returns the status, the location header and the body, or the error.
func ask(t *testing.T, c *http.Client, url string) (status int, location, body string, err error) {
	t.Helper()
	r, err := c.Get(url)
	if err != nil {
		return 0, "", "", err
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	return r.StatusCode, r.Header.Get("X-Terraform-Get"), string(data), err
}

func TestUpstream(t *testing.T) {
	u := registrytest.New(t, txtar.Parse([]byte(fixture)))
	commit, err := u.Commit("acme/network.git@v1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path           string
		status         int
		location, body string // body is a substring of the body
	}{
		{"/.well-known/terraform.json", 200, "", `{"modules.v1":"/v1/modules/"}`},
		{"/v1/modules/acme/network/aws/versions", 200, "", `"versions":[{"version":"v1.0.0"},{"version":"1.1.0"},{"version":"1.2.0"},{"version":"1.3.0"}]`},
		{"/v1/modules/acme/none/aws/versions", 404, "", "Not Found"},
		{"/v1/modules/acme/network/aws/1.0.0/download", 204, "git::" + u.URL + "/acme/network.git?ref=" + commit, ""},
		{"/v1/modules/acme/network/aws/1.1.0/download", 200, "", `{"location":"/archives/network?archive=zip`},
		{"/v1/modules/acme/network/aws/1.2.0/download", 204, u.URL + "/archives/packages/acme/network/aws/1.2.0.tar.gz", ""},
		{"/v1/modules/acme/network/aws/1.3.0/download", 200, u.URL + "/get/network", "{}"},
		{"/v1/modules/acme/network/aws/9.0.0/download", 404, "", "Not Found"},
		{"/archives/network.zip", 200, "", "PK"},
		{"/archives/network", 200, "", "PK"},
		{"/archives/none.zip", 404, "", ""},
		{"/get/network?terraform-get=1", 200, u.URL + "/meta/network", ""},
		{"/get/network", 404, "", ""},
		{"/meta/network?terraform-get=1", 200, "", `content="` + u.URL + `/archives/network.zip"`},
		{"/elsewhere", 404, "", ""},
	} {
		status, location, body, err := ask(t, client(t), u.URL+test.path)
		if err != nil || status != test.status || location != test.location || !strings.Contains(body, test.body) {
			t.Errorf("GET %s: %d, location %q, body %q, error %v; want %d, %q, %q", test.path, status, location, body, err, test.status, test.location, test.body)
		}
	}
	if got := u.Count(registrytest.Download); got != 5 {
		t.Errorf("%d download requests counted; want 5", got)
	}
	u.Reset()
	if got := u.Count(registrytest.All); got != 0 {
		t.Errorf("%d requests counted after a reset; want none", got)
	}
}

// Real git clones a repository with its submodule, and finds the tags in order.
func TestGit(t *testing.T) {
	u := registrytest.New(t, txtar.Parse([]byte(fixture)))
	dir := filepath.Join(t.TempDir(), "clone")
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Env = append(os.Environ(), "GIT_SSL_CAINFO="+u.CAFile, "GIT_CONFIG_GLOBAL="+os.DevNull)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
		return string(out)
	}
	git("clone", "--quiet", "--recurse-submodules", "--branch", "v1.0.0", u.URL+"/acme/network.git", dir)
	if target, err := os.Readlink(filepath.Join(dir, "linked.tf")); err != nil || target != "main.tf" {
		t.Errorf("linked.tf points to %q, %v; want main.tf", target, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "run.sh")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("run.sh is not executable: %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "shared", "shared.tf")); err != nil {
		t.Errorf("the submodule: %v", err)
	}
	if got, want := git("-C", dir, "log", "--reverse", "--format=%s", "origin/next"), "v1.0.0\nv1.9.0\nv1.10.0\nnext\n"; got != want {
		t.Errorf("log of branch next: %q; want %q", got, want)
	}
	if u.Count(registrytest.Git) == 0 {
		t.Error("no git request was counted")
	}
}

// Equal fixtures have equal commits and archives on every upstream.
func TestReproducible(t *testing.T) {
	one := registrytest.New(t, txtar.Parse([]byte(fixture)))
	two := registrytest.New(t, txtar.Parse([]byte(fixture)))
	a, errA := one.Commit("acme/network.git@v1.0.0")
	b, errB := two.Commit("acme/network.git@v1.0.0")
	if a != b || len(a) != 40 || errA != nil || errB != nil {
		t.Errorf("commits %q, %v and %q, %v", a, errA, b, errB)
	}
	_, _, zip1, _ := ask(t, client(t), one.URL+"/archives/network.zip")
	_, _, zip2, _ := ask(t, client(t), two.URL+"/archives/network.zip")
	if zip1 != zip2 || zip1 == "" {
		t.Error("the archives differ")
	}
}

func TestKnobs(t *testing.T) {
	u := registrytest.New(t, txtar.Parse([]byte(fixture)))
	archive := u.URL + "/archives/network.zip"
	set := func(kind registrytest.Kind, settings ...string) {
		t.Helper()
		var k registrytest.Knobs
		for _, s := range settings {
			name, value, _ := strings.Cut(s, "=")
			if err := k.Set(name, value); err != nil {
				t.Fatal(err)
			}
		}
		u.Set(kind, k)
	}
	status := func(url string) string {
		code, _, _, err := ask(t, client(t), url)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return "truncated"
		case errors.Is(err, syscall.ECONNREFUSED):
			return "refused"
		}
		return fmt.Sprint(code)
	}
	check := func(what, url, want string) {
		t.Helper()
		if got := status(url); got != want {
			t.Errorf("%s: %s; want %s", what, got, want)
		}
	}
	set(registrytest.All, "status=429", "retry-after=3", "times=1")
	check("the first of times=1", archive, "429")
	check("the second of times=1", archive, "200")
	set(registrytest.Archive, "status=500")
	check("another kind", u.URL+"/.well-known/terraform.json", "200")
	check("the kind itself", archive, "500")
	set(registrytest.Archive, "truncate=10")
	check("truncate", archive, "truncated")
	set(registrytest.Archive, "token=secret")
	check("token", archive, "401")
	set(registrytest.Archive, "redirects=2")
	check("redirects", archive, "302")
	check("redirects, followed", archive+"?redirected=2", "200")
	set(registrytest.Archive, "bandwidth=100000", "latency=1ms", "type=text/odd")
	check("slow", archive, "200")

	u.Down()
	check("down", archive, "refused")
	if err := u.Up(); err != nil {
		t.Fatal(err)
	}
	check("up again", archive, "200")
}

// Held requests are answered when the knobs change.
func TestHold(t *testing.T) {
	u := registrytest.New(t, txtar.Parse([]byte(fixture)))
	u.Set(registrytest.Archive, registrytest.Knobs{Hold: true})
	c := client(t)
	done := make(chan int)
	go func() {
		code, _, _, _ := ask(t, c, u.URL+"/archives/network.zip")
		done <- code
	}()
	for u.Count(registrytest.Archive) == 0 {
		time.Sleep(time.Millisecond)
	}
	select {
	case code := <-done:
		t.Errorf("answered %d while held", code)
	default:
	}
	u.Set(registrytest.Archive, registrytest.Knobs{})
	if code := <-done; code != 200 {
		t.Errorf("answered %d when released; want 200", code)
	}
}
