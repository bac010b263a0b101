package admin_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/internal/datadir"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/proxy"
)

var vpc = modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// handler returns a handler that answers as a proxy does.
func handler(s *admin.Server, operators *auth.Authenticator) http.Handler {
	var mounts []proxy.Mount
	for _, r := range s.Routes() {
		mounts = append(mounts, proxy.Mount{Method: r.Method, Path: r.Path, Kind: "api", Handle: r.Handle})
	}
	return proxy.New(proxy.Config{Mounts: mounts, Operators: operators})
}

func byOwner(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(auth.WithPrincipal(r.Context(), auth.Owner)))
	})
}

// served returns a client of h over HTTP.
func served(t *testing.T, h http.Handler) *admin.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := admin.Remote(server.URL, "any")
	must(t, err)
	return c
}

func outside(t *testing.T, s *admin.Server) *admin.Client {
	t.Helper()
	return served(t, byOwner(handler(s, nil)))
}

// drifts returns the drift that q selects.
func drifts(ctx context.Context, c *admin.Client, q admin.LedgerQuery) (list []admin.Drift, err error) {
	_, err = admin.LedgerDrift.Call(ctx, c, q, func(d admin.Drift) error { list = append(list, d); return nil })
	return list, err
}

func TestLedger(t *testing.T) {
	book := ledgertest.Open(t, t.TempDir())
	for _, v := range []string{"1.0.0", "2.0.0"} {
		must(t, book.Add(t.Context(), ledgertest.NewRecord(vpc, v, v)))
	}
	must(t, book.AddDrift(t.Context(), ledger.Drift{
		Ref: vpc.At("1.0.0"), Recorded: ledgertest.Sum("1.0.0"), Offered: ledgertest.Sum("b"),
		Source: modproxy.Source{URL: "https://git.example.com/b"}, Time: time.Unix(2e9, 0).UTC(),
	}))
	c, ctx := outside(t, &admin.Server{Ledger: book}), t.Context()

	drift, err := drifts(ctx, c, admin.LedgerQuery{Since: time.Unix(1e9, 0)})
	if err != nil || len(drift) != 1 || !drift[0].Open || drift[0].Offered != ledgertest.Sum("b") || drift[0].Name != versionname.Of(vpc.At("1.0.0")) {
		t.Errorf("Drift = %+v, %v", drift, err)
	}
	if drift, err := drifts(ctx, c, admin.LedgerQuery{Since: time.Unix(3e9, 0)}); err != nil || len(drift) != 0 {
		t.Errorf("Drift of a time = %+v, %v", drift, err)
	}
	in := admin.AcceptRequest{Name: versionname.Name{Module: vpc.String(), Version: "1.0"}, Sum: ledgertest.Sum("b"), Reason: "announced"}
	out, err := admin.LedgerAccept.Call(ctx, c, in, nil)
	if err != nil || !out.Offered || out.Before != ledgertest.Sum("1.0.0") {
		t.Errorf("Accept = %+v, %v", out, err)
	}
	if drift, err := drifts(ctx, c, admin.LedgerQuery{}); err != nil || len(drift) != 1 || drift[0].Open {
		t.Errorf("Drift of what was accepted = %+v, %v", drift, err)
	}
	var records []admin.Record
	_, err = admin.LedgerRecords.Call(ctx, c, admin.LedgerQuery{Name: versionname.Of(vpc.At("1.0.0"))}, func(r admin.Record) error { records = append(records, r); return nil })
	if err != nil || len(records) != 2 || records[0].Counts || !records[1].Counts || records[1].Source.URL != "https://git.example.com/b" {
		t.Errorf("Records = %+v, %v", records, err)
	}
	key, err := admin.LedgerKey.Call(ctx, c, struct{}{}, nil)
	if err != nil || key != book.VerifierKey() {
		t.Errorf("VerifierKey = %q, %v", key, err)
	}

	var export bytes.Buffer
	if n, err := admin.LedgerExport.Call(ctx, c, struct{}{}, func(p []byte) error { export.Write(p); return nil }); err != nil || n != book.Tree().N {
		t.Errorf("Export = %d, %v", n, err)
	}
	copied := ledgertest.Open(t, t.TempDir())
	other, inside := outside(t, &admin.Server{Ledger: copied}), admin.Inside(&admin.Server{Ledger: copied})
	if _, err := admin.LedgerImport.Call(ctx, other, admin.LedgerImportRequest{From: bytes.NewReader(export.Bytes())}, nil); err == nil {
		t.Error("an export with another key was imported")
	}
	again := admin.LedgerImportRequest{Keys: []string{key}, From: bytes.NewReader(export.Bytes())}
	if n, err := admin.LedgerImport.Call(ctx, other, admin.LedgerImportRequest{Keys: []string{key}, From: &export}, nil); err != nil || n != book.Tree().N || copied.Tree() != book.Tree() {
		t.Errorf("Import = %d, %v", n, err)
	}
	if n, err := admin.LedgerImport.Call(ctx, inside, again, nil); err != nil || n != 0 {
		t.Errorf("Import of what is there = %d, %v", n, err)
	}
}

// TestAcceptForgets: accepting content invalidates the version in memory, in any spelling of its address and number.
func TestAcceptForgets(t *testing.T) {
	book := ledgertest.Open(t, t.TempDir())
	must(t, book.Add(t.Context(), ledgertest.NewRecord(vpc, "1.2.0", "a")))
	memory := &forgetter{}
	c := outside(t, &admin.Server{Ledger: book, Cache: memory})
	for i, spelled := range []string{"1.2.0", "v1.2.0", "1.2", "v01.2"} {
		in := admin.AcceptRequest{Name: versionname.Name{Module: "Registry.Example.com/acme/vpc/aws", Version: spelled}, Sum: ledgertest.Sum(spelled), Reason: "announced"}
		_, err := admin.LedgerAccept.Call(t.Context(), c, in, nil)
		must(t, err)
		if want := vpc.At("1.2.0"); len(memory.forgotten) != i+1 || memory.forgotten[i] != want {
			t.Errorf("accepted as %q: forgotten %q; want %q", spelled, memory.forgotten, want)
		}
	}
}

type forgetter struct {
	admin.Cache
	forgotten []modproxy.Ref
}

func (f *forgetter) Forget(v modproxy.Ref) { f.forgotten = append(f.forgotten, v) }

// TestReach: Reach returns a client of the serving process, or a claim of the directory if no process serves.
func TestReach(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if _, _, err := admin.Reach(t.Context(), dir); err == nil {
		t.Error("a directory that does not exist was made")
	}
	must(t, datadir.Create(dir))
	client, claim, err := admin.Reach(t.Context(), dir)
	if err != nil || client != nil {
		t.Fatalf("Reach without a proxy = %v, %v", client, err)
	}
	socket, err := claim.Listen()
	must(t, err)
	book := ledgertest.Open(t, t.TempDir())
	server := &http.Server{Handler: byOwner(handler(&admin.Server{Ledger: book}, nil))}
	go server.Serve(socket)
	defer server.Close()
	client, other, err := admin.Reach(t.Context(), dir)
	if err != nil || other != nil {
		t.Fatalf("Reach = %v, %v", other, err)
	}
	if key, err := admin.LedgerKey.Call(t.Context(), client, struct{}{}, nil); err != nil || key != book.VerifierKey() {
		t.Errorf("VerifierKey = %q, %v", key, err)
	}
	must(t, server.Close())
	if _, err := admin.LedgerKey.Call(t.Context(), client, struct{}{}, nil); err == nil {
		t.Error("the proxy has ended, and answers")
	}
	must(t, claim.Close())
}

// names maps JSON Web Tokens to their principals.
type names map[string]auth.Principal

func (n names) Verify(_ context.Context, text string, _ time.Time) (auth.Principal, error) {
	if p, ok := n[text]; ok {
		return p, nil
	}
	return auth.Principal{}, &auth.Refused{Why: "no such"}
}

func (names) Login(time.Time) *auth.Login { return nil }

func TestRemote(t *testing.T) {
	book := ledgertest.Open(t, t.TempDir())
	api := handler(&admin.Server{Ledger: book}, &auth.Authenticator{JWT: names{
		"o.p.s": {Kind: auth.ByIssuer, Grant: auth.Grant{Admin: true}},
		"r.e.a": {Kind: auth.ByIssuer, Grant: auth.Grant{Scopes: []auth.Scope{auth.Everything}}},
	}})
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host is asked for %s, and shown %q", r.URL, r.Header["Authorization"])
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Authorization") {
		case "Bearer m.o.v":
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
		case "Bearer w.w.w":
			fmt.Fprint(w, `{"key": "of another site"}`)
		default:
			api.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	for token, want := range map[string]string{
		"o.p.s": "",
		"x.x.x": "does not know the token",
		"r.e.a": "it is not an operator's",
		"w.w.w": "not the URL of a modproxy",
		"m.o.v": "redirects are not followed",
	} {
		c, err := admin.Remote(server.URL+"/", token)
		must(t, err)
		key, err := admin.LedgerKey.Call(t.Context(), c, struct{}{}, nil)
		if want == "" && (err != nil || key != book.VerifierKey()) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v", token, key, err)
		}
	}
	c, err := admin.Remote(server.URL, "o.p.s")
	must(t, err)
	if _, err := admin.LedgerAccept.Call(t.Context(), c, admin.AcceptRequest{Name: versionname.Of(vpc.At("1.0.0")), Sum: ledgertest.Sum("a"), Reason: "x"}, nil); err == nil || !strings.HasPrefix(err.Error(), "no record of "+vpc.String()) {
		t.Errorf("what the API does not find: %v", err)
	}
	for server, token := range map[string]string{
		"http://modules.example.com": "o.p.s", "http://127.0.0.1.example.com": "o.p.s", "http://192.0.2.1:8080": "o.p.s",
		"ftp://127.0.0.1": "o.p.s", "modules.example.com": "o.p.s", "": "o.p.s", "https://modules.example.com": "",
	} {
		if _, err := admin.Remote(server, token); err == nil {
			t.Errorf("Remote(%q, %q) is no error", server, token)
		}
	}
	if _, err := admin.Remote("http://[::1]:8080", "o.p.s"); err != nil {
		t.Error(err)
	}
}

// TestRemoteVerifies: the client sends no token to a server whose certificate the machine does not trust.
func TestRemoteVerifies(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a server without a good certificate is shown %q", r.Header["Authorization"])
	}))
	server.Config.ErrorLog = nil
	defer server.Close()
	c, err := admin.Remote(server.URL, "o.p.s")
	must(t, err)
	if _, err := admin.LedgerKey.Call(t.Context(), c, struct{}{}, nil); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("error %v", err)
	}
}

var _ admin.Cache = (*cache.Registry)(nil)
