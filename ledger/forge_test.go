package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

var vpc = modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}

func record(version, seed string) ledger.Record { return ledgertest.NewRecord(vpc, version, seed) }

func mustAdd(t testing.TB, l ledger.Ledger, records ...ledger.Record) {
	t.Helper()
	for _, r := range records {
		if err := l.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// writeSome creates a log with a record of every kind. The last record is the first one of version 9.0.0.
func writeSome(t testing.TB, dir string) {
	t.Helper()
	l := mustOpen(t, dir)
	defer l.Close()
	mustAdd(t, l, record("1.0.0", "a"), record("1.1.0", "a"))
	moved := record("1.1.0", "b")
	drift := ledger.Drift{Ref: vpc.At("1.1.0"), Recorded: ledgertest.Sum("a"), Offered: moved.Sum, Source: moved.Source, Time: moved.Time}
	if err := l.AddDrift(t.Context(), drift); err != nil {
		t.Fatal(err)
	}
	moved.Reason = "they said so"
	if err := l.Accept(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	if err := l.Decide(t.Context(), ledgertest.NewDecision(vpc, modproxy.Block, "< 1.1.0")); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, l, record("9.0.0", "a"))
}

func read(t testing.TB, elem ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, content []byte, elem ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(elem...), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// copyDir copies the files of a log that is not open.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// forge writes a log of texts and its head in the documented format, signed with the key in the directory.
func forge(t testing.TB, dir string, texts ...[]byte) {
	t.Helper()
	var hashes []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) (list []tlog.Hash, err error) {
		for _, i := range indexes {
			list = append(list, hashes[i])
		}
		return list, nil
	})
	log := bytes.NewBufferString("modproxy ledger 1\n")
	for i, text := range texts {
		fmt.Fprintf(log, "%d %d %s\n%s\n", i, len(text), tlog.RecordHash(text), text)
		more, err := tlog.StoredHashes(int64(i), text, reader)
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, more...)
	}
	root, err := tlog.TreeHash(int64(len(texts)), reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(read(t, dir, "key"))))
	if err != nil {
		t.Fatal(err)
	}
	tree := tlog.FormatTree(tlog.Tree{N: int64(len(texts)), Hash: root})
	head, err := note.Sign(&note.Note{Text: string(tree)}, signer)
	if err != nil {
		t.Fatal(err)
	}
	write(t, log.Bytes(), dir, "log")
	write(t, head, dir, "head")
}

// textOf returns the text of an entry.
func textOf(t testing.TB, entry any) []byte {
	t.Helper()
	var text []byte
	var err error
	switch e := entry.(type) {
	case ledger.Record:
		text, err = ledger.FormatRecord(e)
	case ledger.Drift:
		text, err = ledger.FormatDrift(e)
	case modproxy.Decision:
		text, err = ledger.FormatDecision(e)
	case ledger.Bundle:
		text, err = ledger.FormatBundle(e)
	case ledger.OwnHost:
		text, err = ledger.FormatOwnHost(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// wantDamaged expects that the directory is refused with a remedy, and stays unchanged.
func wantDamaged(t *testing.T, what, dir string) {
	t.Helper()
	before := files(t, dir)
	l, err := ledger.Open(dir)
	if err == nil {
		l.Close()
		t.Fatalf("%s: it was opened, with %d records", what, l.Tree().N)
	}
	if !errors.Is(err, ledger.ErrDamaged) || !strings.Contains(err.Error(), "backup") || !strings.Contains(err.Error(), "ledger import") {
		t.Errorf("%s: %v; want ErrDamaged with its remedy", what, err)
	}
	after := files(t, dir)
	for name := range before {
		if before[name] != after[name] {
			t.Errorf("%s: %s was changed", what, name)
		}
	}
	if len(before) != len(after) {
		t.Errorf("%s: files were made or removed: %d and %d", what, len(before), len(after))
	}
}

// wantNewer expects that the directory is refused as that of a later version, and stays unchanged.
func wantNewer(t *testing.T, what, dir string) {
	t.Helper()
	before := files(t, dir)
	l, err := ledger.Open(dir)
	if l != nil || errors.Is(err, ledger.ErrDamaged) || !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), "newer modproxy") {
		t.Errorf("%s: %v; want the error about a newer modproxy", what, err)
	}
	if !maps.Equal(before, files(t, dir)) {
		t.Errorf("%s: the directory was changed", what)
	}
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "lock" {
			all[e.Name()] = string(read(t, dir, e.Name()))
		}
	}
	return all
}
