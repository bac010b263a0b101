package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

// A ledger that was lost beside packages is not begun anew in silence.
func TestOpenLedger(t *testing.T) {
	c := &config.Config{Data: t.TempDir()}
	store := mustOpenStore(t, c.Data)
	book, err := openLedger(c, store)
	must(t, err)
	must(t, book.Close())
	must(t, store.PutPackage(vpc, "1.0.0", packageOf("a")))
	if _, err := openLedger(c, store); err == nil || !strings.Contains(err.Error(), "the ledger is missing") {
		t.Errorf("a ledger without records beside packages: %v", err)
	}
	store.Close()
	if n, err := BeginLedger(t.Context(), c); err != nil || n != 1 {
		t.Fatalf("began %d, %v", n, err)
	}
	if _, err := BeginLedger(t.Context(), c); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("a ledger was begun over another: %v", err)
	}
	book, err = openLedger(c, mustOpenStore(t, c.Data))
	must(t, err)
	defer book.Close()
	if r, err := book.Lookup(t.Context(), vpc.At("1.0.0")); err != nil || r.Sum != ledgertest.Sum("a") {
		t.Errorf("recorded %v, %v", r, err)
	}
}

// A ledger whose beginning was interrupted is gone on with, and no other.
func TestBeginLedgerAgain(t *testing.T) {
	accepted := recordOf(vpc, "1.0.0", packageOf("b"))
	accepted.Reason = "announced"
	for what, c := range map[string]struct {
		has  []ledger.Record
		goes bool
	}{
		"the half of it":                   {[]ledger.Record{recordOf(vpc, "1.0.0", packageOf("a"))}, true},
		"all of it":                        {[]ledger.Record{recordOf(vpc, "1.0.0", packageOf("a")), recordOf(vpc, "2.0.0", packageOf("a"))}, false},
		"other content":                    {[]ledger.Record{recordOf(vpc, "1.0.0", packageOf("b"))}, false},
		"a version that is not kept":       {[]ledger.Record{recordOf(vpc, "3.0.0", packageOf("a"))}, false},
		"what somebody accepted meanwhile": {[]ledger.Record{recordOf(vpc, "1.0.0", packageOf("a")), accepted}, false},
	} {
		conf := &config.Config{Data: t.TempDir()}
		store, book := mustOpenStore(t, conf.Data), mustOpenBook(t, conf.LedgerDir())
		for _, version := range []string{"1.0.0", "2.0.0"} {
			must(t, store.PutPackage(vpc, version, packageOf("a")))
		}
		for _, r := range c.has {
			if r.Reason == "" {
				must(t, book.Add(t.Context(), r))
			} else {
				must(t, book.Accept(t.Context(), r))
			}
		}
		must(t, errors.Join(store.Close(), book.Close()))
		n, err := BeginLedger(t.Context(), conf)
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
