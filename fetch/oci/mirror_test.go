package oci_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/pack"
)

// A package comes from the mirror of its registry, with the credential for the mirror only.
func TestMirror(t *testing.T) {
	registry := withHtpasswd(t, stocked(t), "")
	forge, mirror := newSite(t, http.NotFound), front(t, registry)
	m, err := fetch.ParseMirror(forge.host+"/acme/*", mirror.host+"/corp/*")
	if err != nil {
		t.Fatal(err)
	}
	shown := func(host, password string) fetch.Credential {
		return fetch.Credential{Host: host, Username: user, Password: egress.NewSecret(password)}
	}
	g := newGetter(t, shown(forge.host, "incorrect-horse"), shown(mirror.host, password))
	table := &fetch.Table{Getters: map[string]fetch.Getter{"oci": g}, Scratch: t.TempDir(), Limits: pack.Limits{}, Mirrors: fetch.Mirrors{m}}
	p, err := table.Package(t.Context(), source(t, "oci://"+forge.host+"/acme/vpc?tag=1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	want := modproxy.Source{URL: "oci://" + forge.host + "/acme/vpc", Mirror: "oci://" + mirror.host + "/corp/vpc", Commit: p.Source.Commit}
	if p.Source != want || len(p.Source.Commit) != 64 {
		t.Errorf("source %+v, want %+v", p.Source, want)
	}
	if len(forge.sent()) > 0 || !strings.HasPrefix(mirror.authorizations()[1], "Basic ") {
		t.Error("want requests to the mirror only, with its credential")
	}
}
