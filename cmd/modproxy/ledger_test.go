package main

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/disk"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/proxy"
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
	book, err := ledger.Open(dir, "")
	must(t, err)
	t.Cleanup(func() { book.Close() })
	return book
}

func mustOpenStore(t *testing.T, dir string) *disk.Store {
	t.Helper()
	store, err := disk.Open(dir)
	must(t, err)
	t.Cleanup(func() { store.Close() })
	return store
}

func packageOf(seed string) cache.PackageRecord {
	return cache.PackageRecord{Digest: modproxy.Digest{1}, Sum: ledgertest.Sum(seed), Size: 1, Subdir: "modules/ü", Fetched: time.Unix(1e9, 0).UTC()}
}

// A ledger that was lost beside packages is not begun anew in silence.
func TestOpenBook(t *testing.T) {
	c := &config.Config{Data: t.TempDir()}
	store := mustOpenStore(t, c.Data)
	book, err := app.OpenLedger(c, store)
	must(t, err)
	must(t, book.Close())
	must(t, store.PutPackage(vpc, "1.0.0", packageOf("a")))
	if _, err := app.OpenLedger(c, store); err == nil || !strings.Contains(err.Error(), "the ledger is missing") {
		t.Errorf("a ledger without records beside packages: %v", err)
	}
	store.Close()
	if n, err := beginLedger(c); err != nil || n != 1 {
		t.Fatalf("began %d, %v", n, err)
	}
	if _, err := beginLedger(c); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("a ledger was begun over another: %v", err)
	}
	book, err = app.OpenLedger(c, mustOpenStore(t, c.Data))
	must(t, err)
	defer book.Close()
	if r, err := book.Lookup(vpc, "1.0.0"); err != nil || r.Sum != ledgertest.Sum("a") {
		t.Errorf("recorded %v, %v", r, err)
	}
}

// A ledger whose beginning was interrupted is gone on with, and no other.
func TestBeginLedgerAgain(t *testing.T) {
	accepted := app.RecordOf(vpc, "1.0.0", packageOf("b"))
	accepted.Reason = "announced"
	for what, c := range map[string]struct {
		has  []ledger.Record
		goes bool
	}{
		"the half of it":                   {[]ledger.Record{app.RecordOf(vpc, "1.0.0", packageOf("a"))}, true},
		"all of it":                        {[]ledger.Record{app.RecordOf(vpc, "1.0.0", packageOf("a")), app.RecordOf(vpc, "2.0.0", packageOf("a"))}, false},
		"other content":                    {[]ledger.Record{app.RecordOf(vpc, "1.0.0", packageOf("b"))}, false},
		"a version that is not kept":       {[]ledger.Record{app.RecordOf(vpc, "3.0.0", packageOf("a"))}, false},
		"what somebody accepted meanwhile": {[]ledger.Record{app.RecordOf(vpc, "1.0.0", packageOf("a")), accepted}, false},
	} {
		conf := &config.Config{Data: t.TempDir()}
		store, book := mustOpenStore(t, conf.Data), mustOpenBook(t, conf.LedgerDir())
		for _, version := range []string{"1.0.0", "2.0.0"} {
			must(t, store.PutPackage(vpc, version, packageOf("a")))
		}
		for _, r := range c.has {
			if r.Reason == "" {
				must(t, book.Add(r))
			} else {
				must(t, book.Accept(r))
			}
		}
		must(t, errors.Join(store.Close(), book.Close()))
		n, err := beginLedger(conf)
		if c.goes && (err != nil || n != 2) || !c.goes && !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("a ledger that has %s: %d, %v", what, n, err)
		}
		want := int64(len(c.has))
		if c.goes {
			want = 2
		}
		if got := mustOpenBook(t, conf.LedgerDir()).Tree().N; got != want {
			t.Errorf("a ledger that has %s has %d records now, want %d", what, got, want)
		}
	}
}

// What is in memory is forgotten of the version that was accepted, however that was
// spelled.
func TestAcceptForgets(t *testing.T) {
	book := mustOpenBook(t, t.TempDir())
	must(t, book.Add(ledgertest.NewRecord(vpc, "1.2.0", "a")))
	var forgotten []string
	forget := func(m modproxy.Module, version string) { forgotten = append(forgotten, m.String()+" "+version) }
	on := httptest.NewServer(proxy.New(proxy.Config{
		Mounts: ledgerMounts(book, forget), Operator: func(*http.Request) bool { return true },
	}))
	defer on.Close()
	a := newAPI(server{URL: on.URL})
	for i, spelled := range []string{"1.2.0", "v1.2.0", "1.2", "v01.2"} {
		in := acceptance{Module: "Registry.Example.com/acme/vpc/aws", Version: spelled, Sum: ledgertest.Sum(spelled), Reason: "announced"}
		must(t, a.ask(t.Context(), "POST", "/-/api/ledger/accept", in, nil))
		if want := vpc.String() + " 1.2.0"; len(forgotten) != i+1 || forgotten[i] != want {
			t.Errorf("accepted as %q: forgotten %q; want %q", spelled, forgotten, want)
		}
	}
}

func TestRemoteLedger(t *testing.T) {
	book := mustOpenBook(t, t.TempDir())
	for _, v := range []string{"1.0.0", "2.0.0", "3.0.0-rc.1+b5"} {
		must(t, book.Add(ledgertest.NewRecord(vpc, v, v)))
	}
	server := httptest.NewServer(proxy.New(proxy.Config{Mounts: app.SumDBMounts(book)}))
	defer server.Close()
	remote := func(key string) *remoteLedger {
		l, err := newRemoteLedger(t.Context(), server.URL+"/", key, "")
		must(t, err)
		return l
	}
	l := remote("")
	for _, v := range []string{"1.0.0", "2.0.0", "3.0.0-rc.1+b5"} {
		if r, err := l.record(vpc, v); err != nil || r != ledgertest.NewRecord(vpc, v, v) {
			t.Errorf("record of %s = %+v, %v", v, r, err)
		}
	}
	if _, err := l.record(vpc, "4.0.0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("record of what is not there = %v", err)
	}
	must(t, book.Accept(ledger.Record{ModuleVersion: modproxy.ModuleVersion{Module: vpc, Version: "1.0.0"}, Sum: ledgertest.Sum("b"), Time: time.Now(), Reason: "announced"}))
	if r, err := remote(book.VerifierKey()).record(vpc, "1.0.0"); err != nil || r.Sum != ledgertest.Sum("b") {
		t.Errorf("record of what was accepted = %+v, %v", r, err)
	}
	other := mustOpenBook(t, t.TempDir())
	if r, err := remote(other.VerifierKey()).record(vpc, "1.0.0"); err == nil {
		t.Errorf("another key has signed it: %+v", r)
	}
	if _, err := newRemoteLedger(t.Context(), server.URL, "modproxy+1+AAAA", ""); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("no key: %v", err)
	}
	if res, err := http.Get(server.URL + "/-/sumdb/modproxy/supported"); err != nil || res.StatusCode != 200 {
		t.Errorf("supported: %v, %v", res.Status, err)
	}
}
