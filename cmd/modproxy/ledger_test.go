package main

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/mod/sumdb"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

var vpc = modproxy.Module{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustOpenBook(t *testing.T, dir string) *ledger.Log {
	t.Helper()
	book, err := ledger.Open(dir)
	must(t, err)
	t.Cleanup(func() { book.Close() })
	return book
}

func TestRemoteLedger(t *testing.T) {
	book := mustOpenBook(t, t.TempDir())
	for _, v := range []string{"1.0.0", "2.0.0", "3.0.0-rc.1+b5"} {
		must(t, book.Add(t.Context(), ledgertest.NewRecord(vpc, v, v)))
	}
	mux := http.NewServeMux()
	mux.Handle(app.SumDBPath+"modproxy/", http.StripPrefix(app.SumDBPath+"modproxy", sumdb.NewServer(book.ServerOps())))
	mux.HandleFunc(app.SumDBPath+"key", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, book.VerifierKey()+"\n") })
	server := httptest.NewServer(mux)
	defer server.Close()
	remote := func(key string) *remoteLedger {
		l, err := newRemoteLedger(t.Context(), server.URL+"/", key, "")
		must(t, err)
		return l
	}
	l := remote("")
	for _, v := range []string{"1.0.0", "2.0.0", "3.0.0-rc.1+b5"} {
		if r, err := l.record(t.Context(), vpc.At(v)); err != nil || r != ledgertest.NewRecord(vpc, v, v) {
			t.Errorf("record of %s = %+v, %v", v, r, err)
		}
	}
	if _, err := l.record(t.Context(), vpc.At("4.0.0")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("record of what is not there = %v", err)
	}
	must(t, book.Accept(t.Context(), ledger.Record{ModuleVersion: vpc.At("1.0.0"), Sum: ledgertest.Sum("b"), Time: time.Now(), Reason: "announced"}))
	if r, err := remote(book.VerifierKey()).record(t.Context(), vpc.At("1.0.0")); err != nil || r.Sum != ledgertest.Sum("b") {
		t.Errorf("record of what was accepted = %+v, %v", r, err)
	}
	other := mustOpenBook(t, t.TempDir())
	if r, err := remote(other.VerifierKey()).record(t.Context(), vpc.At("1.0.0")); err == nil {
		t.Errorf("another key has signed it: %+v", r)
	}
	if _, err := newRemoteLedger(t.Context(), server.URL, "modproxy+1+AAAA", ""); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("no key: %v", err)
	}
}
