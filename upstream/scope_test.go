package upstream_test

import (
	"archive/zip"
	"bytes"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/web"
	"github.com/modproxy/modproxy/upstream"
)

// namespace is the modules of one namespace.
type namespace string

func (n namespace) Covers(m modproxy.Address) bool { return m.Namespace == string(n) }

// A publisher may name any package as a location. A credential is used only for the modules that it is configured for:
// otherwise any publisher could read everything that the credential opens.
func TestCredentialIsForModules(t *testing.T) {
	var private bytes.Buffer
	z := zip.NewWriter(&private)
	if _, err := z.Create("main.tf"); err != nil {
		t.Fatal(err)
	}
	z.Close()
	files := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "secret-password" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Write(private.Bytes())
	}))
	defer files.Close()
	registry := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Terraform-Get", files.URL+"/private.zip")
		w.WriteHeader(http.StatusNoContent)
	}))
	defer registry.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: files.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := egress.New(egress.Config{Allow: []string{"127.0.0.1"}, CAFile: ca, NoHedging: true})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	host := strings.TrimPrefix(registry.URL, "https://")
	scratch := t.TempDir()
	archives := &web.Getter{
		Egress: out, Scratch: scratch, MaxReceived: 1 << 20,
		Credentials: fetch.Credentials{{
			Host: strings.TrimPrefix(files.URL, "https://"), Username: "modproxy", Password: egress.NewSecret("secret-password"),
			Scope: namespace("acme"),
		}},
	}
	c, err := upstream.New(upstream.Config{
		Egress: out, Hosts: map[string]upstream.Host{host: {Modules: registry.URL + "/v1/modules/"}},
		Fetch: &fetch.Table{Scratch: scratch, Getters: map[string]fetch.Getter{"https": archives}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]error{"acme": nil, "attacker": modproxy.ErrDenied} {
		p, err := c.Package(t.Context(), modproxy.Address{Host: host, Namespace: namespace, Name: "network", System: "aws"}.At("1.0.0"))
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", namespace, err, want)
		}
		if err == nil {
			p.Close()
		}
	}
}
