package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb"

	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/lock"
)

// wantMisbehaviour expects that a client finds a proof that the ledger was changed.
func wantMisbehaviour(t *testing.T, c *lock.RemoteLedger, r ledger.Record) {
	t.Helper()
	if _, err := c.Lookup(t.Context(), r.Ref); err == nil || !strings.Contains(err.Error(), "proof of misbehavior") {
		t.Errorf("lookup = %v, want a proof of misbehaviour", err)
	}
}

// forged returns other sums in look-ups than the tree has.
type forged struct{ sumdb.ServerOps }

func (f forged) ReadRecords(ctx context.Context, id, n int64) ([][]byte, error) {
	texts, err := f.ServerOps.ReadRecords(ctx, id, n)
	for i := range texts {
		texts[i] = bytes.Replace(texts[i], []byte(ledgertest.Sum("a")), []byte(ledgertest.Sum("b")), 1)
	}
	return texts, err
}

func TestClientRefusesForgedRecord(t *testing.T) {
	l := mustOpen(t, t.TempDir())
	mustAdd(t, l, record("1.0.0", "a"), record("2.0.0", "a"))
	c, _ := ledgertest.Serve(t, forged{l.ServerOps()}, l.VerifierKey())
	if _, err := c.Lookup(t.Context(), vpc.At("1.0.0")); err == nil || !strings.Contains(err.Error(), "cannot authenticate") {
		t.Errorf("lookup of a forged record = %v", err)
	}
}

// The operator, with the key, rewrites the log with another sum.
func TestClientSeesRewrittenHistory(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	mustAdd(t, l, record("1.0.0", "a"), record("2.0.0", "a"))
	c, replace := ledgertest.Serve(t, l.ServerOps(), l.VerifierKey())
	if _, err := c.Lookup(t.Context(), vpc.At("2.0.0")); err != nil {
		t.Fatal(err)
	}
	l.Close()
	forge(t, dir, textOf(t, record("1.0.0", "b")), textOf(t, record("2.0.0", "a")), textOf(t, record("3.0.0", "a")))
	l = mustOpen(t, dir)
	replace(l.ServerOps())
	wantMisbehaviour(t, c, record("3.0.0", "a"))
	// A client without earlier state has no proof.
	c, _ = ledgertest.Serve(t, l.ServerOps(), l.VerifierKey())
	if _, err := c.Lookup(t.Context(), vpc.At("3.0.0")); err != nil {
		t.Error(err)
	}
}

// An older copy of the whole directory replaces the log and diverges from it.
func TestClientSeesFork(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	mustAdd(t, l, record("1.0.0", "a"))
	l.Close()
	older := copyDir(t, dir)
	l, fork := mustOpen(t, dir), mustOpen(t, older)
	mustAdd(t, l, record("2.0.0", "a"))
	mustAdd(t, fork, record("2.0.0", "b"), record("3.0.0", "a"))
	c, replace := ledgertest.Serve(t, l.ServerOps(), l.VerifierKey())
	if _, err := c.Lookup(t.Context(), vpc.At("2.0.0")); err != nil {
		t.Fatal(err)
	}
	replace(fork.ServerOps())
	wantMisbehaviour(t, c, record("3.0.0", "a"))
}

func TestClientRefusesForeignKey(t *testing.T) {
	l, other := mustOpen(t, t.TempDir()), mustOpen(t, t.TempDir())
	mustAdd(t, l, record("1.0.0", "a"))
	c, _ := ledgertest.Serve(t, l.ServerOps(), other.VerifierKey())
	if _, err := c.Lookup(t.Context(), vpc.At("1.0.0")); err == nil {
		t.Error("a client took a tree that another key had signed")
	}
	if !strings.HasPrefix(l.VerifierKey(), "modproxy+") || l.Name() != "modproxy" {
		t.Errorf("name %q, key %q", l.Name(), l.VerifierKey())
	}
}

func mustReadOnly(t *testing.T, dir string) *ledger.Log {
	t.Helper()
	l, err := ledger.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// copyUnlocked copies the files of a log that is open.
func copyUnlocked(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{"key", "head", "log"} {
		write(t, read(t, from, name), to, name)
	}
	return to
}

func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	mustAdd(t, l, record("1.0.0", "a"))
	f, err := os.OpenFile(dir+"/log", os.O_WRONLY|os.O_APPEND, 0) // a write in progress
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteString("1 2")
	before := files(t, dir)
	r := mustReadOnly(t, dir)
	if got, err := r.Lookup(t.Context(), vpc.At("1.0.0")); err != nil || got != record("1.0.0", "a") {
		t.Errorf("Lookup = %v, %v", got, err)
	}
	if r.VerifierKey() != l.VerifierKey() || r.Tree() != l.Tree() {
		t.Error("it is another ledger")
	}
	if err := r.Add(t.Context(), record("2.0.0", "a")); err == nil || !strings.Contains(err.Error(), "for reading") {
		t.Errorf("Add = %v", err)
	}
	if _, err := r.Import(t.Context(), strings.NewReader(""), nil); err == nil {
		t.Error("Import did something")
	}
	r.Close()
	for name, content := range files(t, dir) {
		if content != before[name] {
			t.Errorf("%s was changed", name)
		}
	}
	if _, err := ledger.OpenReadOnly(t.TempDir()); err == nil {
		t.Error("nothing was opened")
	}
}

// While a log is open, files in its directory are replaced by valid and by invalid ones.
func TestVerify(t *testing.T) {
	replace := func(t *testing.T, dir, name string, content []byte) {
		if err := os.Remove(dir + "/" + name); err != nil {
			t.Fatal(err)
		}
		write(t, content, dir, name)
	}
	other := t.TempDir()
	writeSome(t, other)
	for what, change := range map[string]func(t *testing.T, dir string){
		"":                           func(*testing.T, string) {},
		"an older head":              func(t *testing.T, dir string) { write(t, read(t, dir, "older"), dir, "head") },
		"a head overwritten":         func(t *testing.T, dir string) { write(t, []byte("x"), dir, "head") },
		"no head":                    func(t *testing.T, dir string) { os.Remove(dir + "/head") },
		"no key":                     func(t *testing.T, dir string) { os.Remove(dir + "/key") },
		"the same log, another file": func(t *testing.T, dir string) { replace(t, dir, "log", read(t, dir, "log")) },
		"a log overwritten":          func(t *testing.T, dir string) { write(t, append(read(t, dir, "log")[:40], 'x'), dir, "log") },
		"another ledger": func(t *testing.T, dir string) {
			for _, name := range []string{"key", "head", "log"} {
				replace(t, dir, name, read(t, other, name))
			}
		},
		"other records": func(t *testing.T, dir string) {
			forge(t, dir, textOf(t, record("1.0.0", "b")), textOf(t, record("1.1.0", "b")))
		},
		"another key": func(t *testing.T, dir string) {
			write(t, read(t, other, "key"), dir, "key")
			forge(t, dir, textOf(t, record("1.0.0", "a")), textOf(t, record("1.1.0", "a")))
		},
		"nothing": func(t *testing.T, dir string) { os.RemoveAll(dir) },
	} {
		dir := t.TempDir() + "/ledger"
		l := mustOpen(t, dir)
		mustAdd(t, l, record("1.0.0", "a"))
		write(t, read(t, dir, "head"), dir, "older")
		mustAdd(t, l, record("1.1.0", "a"))
		if err := l.Verify(); err != nil {
			t.Fatal(err)
		}
		change(t, dir)
		if err := l.Verify(); what == "" && err != nil || what != "" && !errors.Is(err, ledger.ErrDamaged) {
			t.Errorf("after %q: %v", what, err)
		}
	}
}
