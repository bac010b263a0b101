//go:build linux

package packages_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
)

const configFile = "etc/modproxy/modproxy.yaml"

// modules is a registry with a module in a git repository, which calls another module of the registry.
const modules = `
-- modules/acme/network/aws/1.0.0 --
git::{url}/acme/network.git?ref=v1.0.0
-- modules/acme/subnet/aws/1.0.0 --
git::{url}/acme/subnet.git?ref=v1.0.0
-- repos/acme/network.git@v1.0.0/main.tf --
module "subnet" {
  source  = "registry.acme.example/acme/subnet/aws"
  version = "1.0.0"
}
-- repos/acme/subnet.git@v1.0.0/main.tf --
output "subnet" { value = 1 }
`

// Paths of version 1.0.0 of the module at modproxy.
const (
	location = "/registry.acme.example/v1/modules/acme/network/aws/1.0.0/download"
	network  = "/registry.acme.example~/v1/modules/acme/network/aws/1.0.0/network-aws-1.0.0.tar.gz"
)

// newRegistry starts a registry.
func newRegistry(t *testing.T) *registrytest.Upstream {
	t.Helper()
	return registrytest.New(t, txtar.Parse([]byte(modules)))
}

// configuration returns the keys with which modproxy reads from a registry of the test.
func configuration(u *registrytest.Upstream) string {
	return "upstreams: [{host: registry.acme.example, modules: " + u.URL + "/v1/modules/}]\negress: {allow: [127.0.0.0/8]}\n"
}

// configure adds a registry to the installed configuration, and its certificate authority to those of the root, as
// operators do.
func (r *root) configure(u *registrytest.Upstream) {
	r.t.Helper()
	authority, err := os.ReadFile(u.CAFile)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := errors.Join(appendTo(r.path(configFile), configuration(u)),
		appendTo(r.path("etc/ssl/certs/ca-certificates.crt"), string(authority))); err != nil {
		r.t.Fatal(err)
	}
}

func appendTo(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// serve starts the service without systemd, with the user and the configuration of the unit, and waits until it is ready.
func (r *root) serve() (*rig.Process, string) {
	r.t.Helper()
	cmd := r.command(asService("modproxy", "serve", "--config", "/"+configFile)...)
	p, err := rig.Start(cmd, filepath.Join(r.t.TempDir(), "modproxy.log"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.Kill)
	url, err := p.URL(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return p, url
}

// stop ends a service, which must exit with 0.
func stop(t *testing.T, p *rig.Process) {
	t.Helper()
	if err := p.Stop(); err != nil {
		t.Fatalf("modproxy: %v\n%s", err, p.Log())
	}
}

// download requests a package, which must be complete.
func download(t *testing.T, url string) {
	t.Helper()
	if a := rig.Get(t.Context(), url); a.Err != nil || a.Status != http.StatusOK || len(a.Body) == 0 {
		t.Fatalf("GET %s: %v", url, a)
	}
}

// install requests the location of a package and then the package, as clients do: modproxy then prefetches the called module.
func install(t *testing.T, url string) {
	t.Helper()
	if a := rig.Get(t.Context(), url+location); a.Status != http.StatusNoContent {
		t.Fatalf("GET %s: %v", url+location, a)
	}
	download(t, url+network)
}

// checkVersion checks what the installed program prints about itself.
func (r *root) checkVersion(version string) {
	r.t.Helper()
	if got := r.run("modproxy", "version"); !strings.HasPrefix(got, "modproxy "+version+" (commit ") {
		r.t.Errorf("modproxy version: %q; want %s and its commit", got, version)
	}
}
