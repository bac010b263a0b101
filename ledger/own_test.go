package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
)

func mustSetOwn(t testing.TB, l *ledger.Log, host string) {
	t.Helper()
	if err := l.SetOwn(t.Context(), host); err != nil {
		t.Fatal(err)
	}
}

// wantOwn expects a host of own modules, and a number of entries.
func wantOwn(t *testing.T, what string, l *ledger.Log, host string, entries int64) {
	t.Helper()
	if l.Own() != host || l.Tree().N != entries {
		t.Errorf("%s: own modules of %q, %d entries; want %q, %d", what, l.Own(), l.Tree().N, host, entries)
	}
}

// TestOwn: the last host counts, also after a restart, an import and a restore. A host is recorded again only if it is not the last one.
func TestOwn(t *testing.T) {
	dir := t.TempDir()
	writeSome(t, dir)
	l := mustOpen(t, dir)
	wantOwn(t, "without a host", l, "", 6)
	mustSetOwn(t, l, "one.example.com:8443")
	mustSetOwn(t, l, "one.example.com:8443")
	wantOwn(t, "one host, twice", l, "one.example.com:8443", 7)
	mustSetOwn(t, l, "two.example.com")
	mustSetOwn(t, l, "one.example.com:8443")
	mustAdd(t, l, record("9.1.0", "a"))
	wantOwn(t, "there and back", l, "one.example.com:8443", 10)
	for _, host := range []string{"", "*", "One.example.com", "one.example.com/corp", "one.example.com:0x1", "one.example.com\ntime", "one example"} {
		if err := l.SetOwn(t.Context(), host); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("SetOwn(%q): %v", host, err)
		}
	}
	if n := count(t, l); n != 5 {
		t.Errorf("%d records, want 5", n)
	}
	if list, _, err := l.Decisions(t.Context(), 0); err != nil || len(list) != 1 {
		t.Errorf("%d decisions, %v", len(list), err)
	}

	reading, err := ledger.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Close()
	wantOwn(t, "opened for reading", reading, "one.example.com:8443", 10)
	if err := reading.SetOwn(t.Context(), "one.example.com:8443"); err != nil {
		t.Errorf("SetOwn of the last host, opened for reading: %v", err)
	}
	if err := reading.SetOwn(t.Context(), "two.example.com"); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("SetOwn of another host, opened for reading: %v", err)
	}

	whole := export(t, l)
	if !strings.Contains(string(whole), "\nown one.example.com:8443\ntime 20") {
		t.Errorf("the export does not show the host:\n%s", whole)
	}
	to := mustOpen(t, t.TempDir())
	wantImport(t, to, whole, trust(t, l), 10)
	wantOwn(t, "imported", to, "one.example.com:8443", 10)
	begun := mustOpen(t, t.TempDir())
	mustSetOwn(t, begun, "one.example.com:8443")
	if n, err := begun.Import(t.Context(), bytes.NewReader(whole), trust(t, l)); n != 0 || !errors.Is(err, modproxy.ErrChanged) || !strings.Contains(err.Error(), "before the next start") {
		t.Errorf("import into a log with a host only: %d, %v", n, err)
	}
	key, err := l.PrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := ledger.Restore(t.Context(), t.TempDir(), key, bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	wantOwn(t, "restored", restored, "one.example.com:8443", 10)
	if err := errors.Join(l.Verify(), l.Close()); err != nil {
		t.Error(err)
	}
	wantOwn(t, "opened again", mustOpen(t, dir), "one.example.com:8443", 10)
}

// TestOwnTogether: of concurrent calls with one host, one adds an entry. A log that has been written so can be opened.
func TestOwnTogether(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			mustAdd(t, l, record(fmt.Sprintf("1.%d.0", i), "a"))
			mustSetOwn(t, l, "one.example.com")
		})
	}
	all.Wait()
	wantOwn(t, "one host", l, "one.example.com", 31)
	for i := range 30 {
		all.Go(func() { mustSetOwn(t, l, fmt.Sprintf("%d.example.com", i%2)) })
	}
	all.Wait()
	entries, last := l.Tree().N, l.Own()
	l.Close()
	wantOwn(t, "opened again", mustOpen(t, dir), last, entries)
}

// TestOwnUnacknowledged: after a crash between the log and the head, the host counts.
func TestOwnUnacknowledged(t *testing.T) {
	dir := t.TempDir()
	writeSome(t, dir)
	head := read(t, dir, "head")
	l := mustOpen(t, dir)
	mustSetOwn(t, l, "one.example.com")
	l.Close()
	write(t, head, dir, "head")
	reading, err := ledger.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	wantOwn(t, "for reading", reading, "", 6)
	reading.Close()
	wantOwn(t, "for writing", mustOpen(t, dir), "one.example.com", 7)
}
