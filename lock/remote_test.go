package lock_test

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/lock"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRemoteLedger(t *testing.T) {
	book := ledgertest.Open(t, t.TempDir())
	for _, v := range []string{"1.0.0", "2.0.0", "3.0.0-rc.1+b5"} {
		must(t, book.Add(t.Context(), ledgertest.NewRecord(vpc, v, v)))
	}
	mux := http.NewServeMux()
	mux.Handle("/-/sumdb/modproxy/", http.StripPrefix("/-/sumdb/modproxy", sumdb.NewServer(book.ServerOps())))
	mux.HandleFunc("/-/sumdb/key", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, book.VerifierKey()+"\n") })
	server := httptest.NewServer(mux)
	defer server.Close()
	remote := func(key string) *lock.RemoteLedger {
		l, err := lock.DialLedger(t.Context(), server.URL+"/", key, "")
		must(t, err)
		return l
	}
	l := remote("")
	for _, v := range []string{"1.0.0", "2.0.0", "3.0.0-rc.1+b5"} {
		if r, err := l.Lookup(t.Context(), vpc.At(v)); err != nil || r != ledgertest.NewRecord(vpc, v, v) {
			t.Errorf("record of %s = %+v, %v", v, r, err)
		}
	}
	for range 2 {
		if _, err := l.Lookup(t.Context(), vpc.At("4.0.0")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("record of what is not there = %v", err)
		}
	}
	must(t, book.Accept(t.Context(), ledger.Record{Ref: vpc.At("1.0.0"), Sum: ledgertest.Sum("b"), Time: time.Now(), Reason: "announced"}))
	if r, err := remote(book.VerifierKey()).Lookup(t.Context(), vpc.At("1.0.0")); err != nil || r.Sum != ledgertest.Sum("b") {
		t.Errorf("record of what was accepted = %+v, %v", r, err)
	}
	other := ledgertest.Open(t, t.TempDir())
	if r, err := remote(other.VerifierKey()).Lookup(t.Context(), vpc.At("1.0.0")); err == nil {
		t.Errorf("another key has signed it: %+v", r)
	}
	if _, err := lock.DialLedger(t.Context(), server.URL, "modproxy+1+AAAA", ""); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("no key: %v", err)
	}
}

// The token is sent only to the given proxy, not to another one to which it redirects.
func TestRemoteLedgerFollowsNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host was asked for %s, and shown %q", r.URL, r.Header["Authorization"])
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		named := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer mp_x" {
				t.Errorf("the named host is shown %q", r.Header["Authorization"])
			}
			w.Header().Set("Location", elsewhere.URL+r.URL.Path)
			w.WriteHeader(status)
		}))
		_, err := lock.DialLedger(t.Context(), named.URL, "", "mp_x")
		if err == nil || !strings.Contains(err.Error(), http.StatusText(status)) {
			t.Errorf("%d: %v", status, err)
		}
		named.Close()
	}
}
