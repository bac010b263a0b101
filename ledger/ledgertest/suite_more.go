package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/lock"
)

func testInvalid(t *testing.T, a, b Handle) {
	const secret = "hunter2"
	for name, change := range map[string]func(*ledger.Record){
		"no host":          func(r *ledger.Record) { r.Address.Host = "" },
		"unnormalised":     func(r *ledger.Record) { r.Address.Host = "Registry.example.com" },
		"port":             func(r *ledger.Record) { r.Address.Host = "registry.example.com:08443" },
		"path in a name":   func(r *ledger.Record) { r.Address.Name = "../x" },
		"system":           func(r *ledger.Record) { r.Address.System = "AWS" },
		"version with v":   func(r *ledger.Record) { r.Version = "v1.2.3" },
		"short version":    func(r *ledger.Record) { r.Version = "1.2" },
		"version":          func(r *ledger.Record) { r.Version = "1.2.3/../.." },
		"no sum":           func(r *ledger.Record) { r.Sum = "" },
		"short sum":        func(r *ledger.Record) { r.Sum = "h1:YQ==" },
		"sum with a break": func(r *ledger.Record) { r.Sum = r.Sum[:20] + "\n" + r.Sum[21:] },
		"spare bits":       func(r *ledger.Record) { r.Sum = "h1:" + modproxy.Sum(strings.Repeat("A", 42)) + "B=" },
		"other hash":       func(r *ledger.Record) { r.Sum = "h2:" + r.Sum[3:] },
		"user information": func(r *ledger.Record) { r.Source.URL = "https://u:" + secret + "@git.example.com/x" },
		"query":            func(r *ledger.Record) { r.Source.URL = "https://git.example.com/x?token=" + secret },
		"fragment":         func(r *ledger.Record) { r.Source.URL = "https://git.example.com/x#" + secret },
		"not a URL":        func(r *ledger.Record) { r.Source.URL = "https://git.example.com/%zz" + secret },
		"two lines":        func(r *ledger.Record) { r.Source.URL = "https://git.example.com/\nreason " + secret },
		"long URL":         func(r *ledger.Record) { r.Source.URL = "https://git.example.com/" + strings.Repeat("x", 1<<20) },
		"secret mirror":    func(r *ledger.Record) { r.Source.Mirror = "https://u:" + secret + "@git.example.com/x" },
		"mirror of none":   func(r *ledger.Record) { r.Source = modproxy.Source{Mirror: "https://git.example.com/x"} },
		"commit":           func(r *ledger.Record) { r.Source.Commit = "HEAD" },
		"no time":          func(r *ledger.Record) { r.Time = time.Time{} },
		"time":             func(r *ledger.Record) { r.Time = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		r := NewRecord(vpc, "1.2.3", "a")
		change(&r)
		err := a.Add(t.Context(), r)
		wantErr(t, name, err, modproxy.ErrInvalid)
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error tells a secret: %v", name, err)
		}
	}
	_, err := a.Lookup(t.Context(), vpc.At("v1.2.3"))
	wantErr(t, "Lookup of a version that is not canonical", err, modproxy.ErrInvalid)
	must(t, a.Add(t.Context(), NewRecord(vpc, "1.2.3", "a")))
	wantErr(t, "Drift to the same", a.AddDrift(t.Context(), newDrift("1.2.3", "a", "a")), modproxy.ErrInvalid)
	wantRecords(t, b, NewRecord(vpc, "1.2.3", "a"))
}

// testAtOnce: concurrent callers add the same versions, each with another sum for one of them.
func testAtOnce(t *testing.T, a, b Handle) {
	const goroutines, versions = 8, 16
	won := make([]int, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		l := []Handle{a, b}[g%2]
		wg.Go(func() {
			for v := range versions {
				if err := l.Add(t.Context(), NewRecord(vpc, fmt.Sprintf("1.%d.0", v), "a")); err != nil {
					t.Error(err)
				}
				if _, err := l.Lookup(t.Context(), vpc.At(fmt.Sprintf("1.%d.0", v))); err != nil {
					t.Errorf("added, and then: %v", err)
				}
			}
			switch err := l.Add(t.Context(), NewRecord(vpc, "2.0.0", fmt.Sprint(g))); {
			case err == nil:
				won[g]++
			case !errors.Is(err, modproxy.ErrChanged):
				t.Error(err)
			}
			for v := range versions {
				if err := l.AddDrift(t.Context(), newDrift(fmt.Sprintf("1.%d.0", v), "a", "b")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var winner []int
	for g, n := range won {
		if n > 0 {
			winner = append(winner, g)
		}
	}
	if len(winner) != 1 {
		t.Fatalf("%v won, want one of them", winner)
	}
	wantRecord(t, a, NewRecord(vpc, "2.0.0", fmt.Sprint(winner[0])))
	if n := len(list(t, a.All(t.Context()))); n != versions+1 {
		t.Errorf("%d records, want %d", n, versions+1)
	}
	if n := len(list(t, a.Drifts(t.Context()))); n != versions {
		t.Errorf("%d drifts, want %d", n, versions)
	}
}

// Serve serves a ledger with a key. It returns a client of the ledger, and a function that replaces the served ledger.
func Serve(t *testing.T, ops sumdb.ServerOps, key string) (c *lock.RemoteLedger, replace func(sumdb.ServerOps)) {
	t.Helper()
	var handler atomic.Pointer[sumdb.Server]
	replace = func(ops sumdb.ServerOps) { handler.Store(sumdb.NewServer(ops)) }
	replace(ops)
	name, _, _ := strings.Cut(key, "+")
	server := httptest.NewServer(http.StripPrefix("/-/sumdb/"+name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.Load().ServeHTTP(w, r)
	})))
	t.Cleanup(server.Close)
	c, err := lock.DialLedger(t.Context(), server.URL, key, "")
	must(t, err)
	return c, replace
}

func serve(t *testing.T, l Handle) *lock.RemoteLedger {
	t.Helper()
	c, _ := Serve(t, l.ServerOps(), l.VerifierKey())
	return c
}

func wantLine(t *testing.T, c *lock.RemoteLedger, r ledger.Record) {
	t.Helper()
	got, err := c.Lookup(t.Context(), r.Ref)
	must(t, err)
	if d := cmp.Diff(r, got); d != "" {
		t.Errorf("%s: %s", r.Ref, d)
	}
}

func testServed(t *testing.T, a, b Handle) {
	c := serve(t, a)
	_, err := c.Lookup(t.Context(), vpc.At("1.2.3"))
	wantErr(t, "lookup in an empty ledger", err, fs.ErrNotExist)
	first, second := NewRecord(vpc, "1.2.3", "a"), accepted(NewRecord(vpc, "1.2.3", "b"), "registry.example.com/acme/vpc/aws v1.2.3 h1:x")
	must(t, b.Add(t.Context(), first))
	wantLine(t, serve(t, a), first)
	must(t, b.AddDrift(t.Context(), newDrift("1.2.3", "a", "b")))
	must(t, b.Accept(t.Context(), second))
	wantLine(t, serve(t, a), second)
}

// testServedOdd: the client checks keys by the rules of Go modules.
func testServedOdd(t *testing.T, a, _ Handle) {
	c := serve(t, a)
	for _, host := range []string{
		"registry.terraform.io", "127.0.0.1:8443", "registry.example.com:8443", "localhost", "localhost:1", "xn--bcher-kva.example",
		"con.example.com", "gopkg.in", "gopkg.in:443", "10",
	} {
		for _, m := range []modproxy.Address{
			{Host: host, Namespace: "acme", Name: "vpc", System: "aws"},
			{Host: host, Namespace: "Azure", Name: "a_b-C", System: "azurerm"},
			{Host: host, Namespace: "aux", Name: "CON", System: "com1"},
			{Host: host, Namespace: "v1", Name: "v2", System: "v1"},
			{Host: host, Namespace: "0", Name: "0", System: "v0"},
		} {
			for _, version := range []string{
				"1.2.3", "0.0.0", "1.2.3-RC.1", "1.2.3+b5", "1.2.3+incompatible", "1.2.3-x+y", "1.2.3.4", "1.2.3.4.5-x+Y",
				"9223372036854775807.0.0", "1.2.3-~1", "1.2.3-rc-.--", "1.2.3+~",
			} {
				if version != "1.2.3+b5" && m != (modproxy.Address{Host: "localhost:1", Namespace: "aux", Name: "CON", System: "com1"}) {
					continue // not the full product: each module once, and each version once
				}
				r := NewRecord(m, version, host+m.String()+version)
				must(t, a.Add(t.Context(), r))
				wantLine(t, c, r)
			}
		}
	}
}

// testServedGrows: earlier answers stay valid while the ledger grows across tiles.
func testServedGrows(t *testing.T, a, b Handle) {
	c := serve(t, a)
	var records []ledger.Record
	for i := range 300 {
		r := NewRecord(vpc, fmt.Sprintf("1.0.%d", i), fmt.Sprint(i))
		must(t, b.Add(t.Context(), r))
		records = append(records, r)
		if i < 3 || i == 254 || i == 255 || i == 256 || i == 299 {
			wantLine(t, c, records[i])
			wantLine(t, c, records[i/2])
		}
	}
	for _, r := range records[100:110] {
		wantLine(t, c, r)
		wantLine(t, serve(t, a), r)
	}
}

func testServedBounded(t *testing.T, a, _ Handle) {
	for i := range 3 {
		must(t, a.Add(t.Context(), NewRecord(vpc, fmt.Sprintf("1.0.%d", i), "a")))
	}
	ops, ctx := a.ServerOps(), context.Background()
	// sumdb.Server uses os.IsNotExist, which does not unwrap errors.
	if _, err := ops.Lookup(ctx, module.Version{Path: "registry.example.com/acme/vpc/aws", Version: "v9.9.9"}); !os.IsNotExist(err) {
		t.Errorf("Lookup = %v, want fs.ErrNotExist", err)
	}
	if texts, err := ops.ReadRecords(ctx, 1, 2); err != nil || len(texts) != 2 || !strings.Contains(string(texts[0]), "v1.0.1 ") {
		t.Errorf("ReadRecords = %q, %v", texts, err)
	}
	for _, bad := range [][2]int64{{0, 4}, {3, 1}, {-1, 1}, {0, -1}, {1 << 62, 1 << 62}, {0, 1 << 40}} {
		if _, err := ops.ReadRecords(ctx, bad[0], bad[1]); !os.IsNotExist(err) {
			t.Errorf("ReadRecords(%d) = %v, want fs.ErrNotExist", bad, err)
		}
	}
	if data, err := ops.ReadTileData(ctx, tlog.Tile{H: 2, L: 0, N: 0, W: 3}); err != nil || len(data) != 3*tlog.HashSize {
		t.Errorf("ReadTileData = %d bytes, %v", len(data), err)
	}
	for _, bad := range []tlog.Tile{
		{H: 2, L: 0, N: 0, W: 4}, {H: 2, L: 0, N: 1, W: 1}, {H: 2, L: 1, N: 0, W: 1}, {H: 30, L: 0, N: 0, W: 1 << 30},
		{H: 30, L: 1 << 40, N: 0, W: 1}, {H: 8, L: 0, N: 1 << 62, W: 1}, {H: 8, L: 0, N: -1, W: 1}, {H: 8, L: 9, N: 0, W: 1},
	} {
		if _, err := ops.ReadTileData(ctx, bad); !os.IsNotExist(err) {
			t.Errorf("ReadTileData(%+v) = %v, want fs.ErrNotExist", bad, err)
		}
	}
}
