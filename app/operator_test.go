package app

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

// keep stores a package made from the seed for versions of a module, as a cache does.
func keep(t *testing.T, kept *store.Store, seed string, versions ...string) {
	t.Helper()
	data := []byte("package " + seed)
	digest := modproxy.Digest(sha256.Sum256(data))
	for _, version := range versions {
		rec := store.Record{
			Ref:   store.Ref{Kind: cache.PackageKind, Key: vpc.Host + "/acme/vpc/aws/" + version},
			Value: fmt.Appendf(nil, `{"sum": %q, "size": %d, "fetched": "2001-09-09T01:46:40Z", "subdir": "modules/ü"}`, ledgertest.Sum(seed), len(data)),
			Needs: []modproxy.Digest{digest},
		}
		_, err := kept.Keep(t.Context(), rec, store.Content{Digest: digest, Size: int64(len(data)), Reader: bytes.NewReader(data)})
		must(t, err)
	}
}

// keepIn is like keep, for the store in a data directory.
func keepIn(t *testing.T, c *config.Config, seed string, versions ...string) {
	t.Helper()
	a := inside(c, Options{})
	must(t, a.openDisk(t.Context(), disk.Options{}))
	a.openStore(nil)
	keep(t, a.Store, seed, versions...)
	must(t, a.Close())
}

func recordOf(version, seed string) ledger.Record {
	r := ledgertest.NewRecord(vpc, version, seed)
	r.Subdir = "modules/ü"
	return r
}

// TestOpenLedger: if packages are stored but the ledger is lost, only BeginLedger creates a new ledger.
func TestOpenLedger(t *testing.T) {
	c := &config.Config{Data: t.TempDir()}
	a := inside(c, Options{})
	must(t, a.openDisk(t.Context(), disk.Options{}))
	a.openStore(nil)
	must(t, a.openLedger(t.Context()))
	must(t, a.Ledger.Close())
	keep(t, a.Store, "a", "1.0.0")
	if err := a.openLedger(t.Context()); err == nil || !strings.Contains(err.Error(), "the ledger is missing") {
		t.Errorf("a ledger without records beside packages: %v", err)
	}
	must(t, a.Close())
	if n, err := BeginLedger(t.Context(), c); err != nil || n != 1 {
		t.Fatalf("began %d, %v", n, err)
	}
	if _, err := BeginLedger(t.Context(), c); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("a ledger was begun over another: %v", err)
	}
	if r, err := ledgertest.Open(t, c.LedgerDir()).Lookup(t.Context(), vpc.At("1.0.0")); err != nil || !r.Is(ledgertest.Sum("a"), "modules/ü") {
		t.Errorf("recorded %v, %v", r, err)
	}
}

// TestBeginLedgerAgain: BeginLedger completes a ledger whose creation was interrupted, and refuses other ledgers.
func TestBeginLedgerAgain(t *testing.T) {
	accepted := recordOf("1.0.0", "b")
	accepted.Reason = "announced"
	for what, c := range map[string]struct {
		has  []ledger.Record
		goes bool
	}{
		"the half of it":                   {[]ledger.Record{recordOf("1.0.0", "a")}, true},
		"all of it":                        {[]ledger.Record{recordOf("1.0.0", "a"), recordOf("2.0.0", "a")}, false},
		"other content":                    {[]ledger.Record{recordOf("1.0.0", "b")}, false},
		"a version that is not kept":       {[]ledger.Record{recordOf("3.0.0", "a")}, false},
		"what somebody accepted meanwhile": {[]ledger.Record{recordOf("1.0.0", "a"), accepted}, false},
	} {
		conf := &config.Config{Data: t.TempDir()}
		keepIn(t, conf, "a", "1.0.0", "2.0.0")
		book := ledgertest.Open(t, conf.LedgerDir())
		for _, r := range c.has {
			if r.Reason == "" {
				must(t, book.Add(t.Context(), r))
			} else {
				must(t, book.Accept(t.Context(), r))
			}
		}
		must(t, book.Close())
		n, err := BeginLedger(t.Context(), conf)
		if c.goes && (err != nil || n != 2) || !c.goes && !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("a ledger that has %s: %d, %v", what, n, err)
		}
		want := int64(len(c.has))
		if c.goes {
			want = 2
		}
		if got := ledgertest.Open(t, conf.LedgerDir()).Tree().N; got != want {
			t.Errorf("a ledger that has %s has %d records now, want %d", what, got, want)
		}
	}
}
