package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/ledger"
)

var vpc = modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestMayLookUp: an authenticated client can look up only the records in its scopes.
func TestMayLookUp(t *testing.T) {
	scope, err := auth.ParseScope("registry.example.com/acme")
	must(t, err)
	acme := auth.Principal{Kind: auth.ByToken, Grant: auth.Grant{Scopes: []auth.Scope{scope}}}
	for path, want := range map[string]bool{
		"/latest":              true,
		"/tile/8/0/000.p/3":    true,
		"/tile/8/data/000.p/3": false,
		"/lookup/registry.example.com/acme/vpc/aws@v1.0.0":    true,
		"/lookup/registry.example.com/other/vpc/aws@v1.0.0":   false,
		"/lookup/registry.example.com/acme/!v!p!c/aws@v1.0.0": true,
		"/lookup/nonsense": false,
	} {
		v, err := mayLookUp(acme, path)
		if looked := strings.HasPrefix(path, "/lookup/") && want; (v.Version == "1.0.0") != looked {
			t.Errorf("%s: looks up %v", path, v)
		}
		if (err == nil) != want || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		admin := auth.Principal{Kind: auth.ByToken, Grant: auth.Grant{Admin: true}}
		for _, p := range []auth.Principal{admin, {}} {
			if _, err := mayLookUp(p, path); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// TestContradictoryLedger: an earlier version of modproxy may have recorded two contents for two spellings of an address. The
// ledger opens, and the content that was recorded first is served.
func TestContradictoryLedger(t *testing.T) {
	c := newOffline(t)
	book, err := ledger.Open(c.LedgerDir())
	must(t, err)
	must(t, book.Add(t.Context(), recordOf("1.0.0", "a")))
	must(t, book.Close())
	other := recordOf("1.0.0", "b")
	other.Namespace = "ACME"
	text, err := ledger.FormatRecord(other)
	must(t, err)
	log, err := os.OpenFile(filepath.Join(c.LedgerDir(), "log"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = fmt.Fprintf(log, "1 %d %v\n%s\n", len(text), tlog.RecordHash(text), text)
	must(t, errors.Join(err, log.Close()))
	keepIn(t, c, "a", "1.0.0")

	a, err := New(t.Context(), c, Options{Log: io.Discard})
	must(t, err)
	defer a.Close()
	if n := a.Ledger.Tree().N; n != 2 {
		t.Fatalf("%d records", n)
	}
	if rec, err := a.Ledger.Lookup(t.Context(), other.Ref); err != nil || rec != recordOf("1.0.0", "a") {
		t.Errorf("%+v, %v", rec, err)
	}
	if _, err := a.Cache.Stat(t.Context(), vpc.At("1.0.0")); err != nil {
		t.Errorf("what was recorded first: %v", err)
	}
	for d, err := range a.Ledger.Drifts(t.Context()) {
		if err != nil || d.Ref != other.Ref || d.Offered != other.Sum {
			t.Errorf("%+v, %v", d, err)
		}
		return
	}
	t.Error("there is no drift")
}
