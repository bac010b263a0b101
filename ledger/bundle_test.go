package ledger_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
)

func aBundle(id byte) ledger.Bundle {
	return ledger.Bundle{
		ID: modproxy.Digest{id}, Chain: modproxy.Digest{1}, Sequence: int64(id), Tree: tlog.Tree{N: 7, Hash: tlog.Hash{id}},
		Signer: "modproxy+0a1b2c3d", Time: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC),
	}
}

func bundles(t *testing.T, l *ledger.Log) (list []ledger.Bundle) {
	t.Helper()
	for b, err := range l.Bundles(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, b)
	}
	return list
}

// TestBundles: an import is recorded once, survives a restart, and is not the record of a version.
func TestBundles(t *testing.T) {
	dir := t.TempDir()
	writeSome(t, dir)
	l := mustOpen(t, dir)
	records := count(t, l)
	again := aBundle(1)
	again.Time = again.Time.Add(time.Hour)
	for _, b := range []ledger.Bundle{aBundle(1), aBundle(2), again} {
		if err := l.AddBundle(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.AddBundle(t.Context(), ledger.Bundle{}); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("AddBundle of nothing: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, dir)
	if list := bundles(t, l); len(list) != 2 || list[0] != aBundle(1) || list[1] != aBundle(2) {
		t.Errorf("bundles %v", list)
	}
	if n := count(t, l); n != records {
		t.Errorf("%d records, and %d before", n, records)
	}
}

func count(t *testing.T, l *ledger.Log) (n int) {
	t.Helper()
	for _, err := range l.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestSignBundle: one key signs heads of trees and manifests of bundles, and neither passes for the other.
func TestSignBundle(t *testing.T) {
	l := some(t)
	head := "go.sum database tree\n1\nLPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=\n"
	for _, text := range []string{head, "", "x" + ledger.BundlePrefix, "modproxy bundle"} {
		if _, err := l.SignBundle([]byte(text)); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("SignBundle(%q): %v", text, err)
		}
	}
	signed, err := l.SignBundle([]byte(ledger.BundlePrefix + "1\n" + head))
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(signed, l.Verifier())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tlog.ParseTree([]byte(n.Text)); err == nil {
		t.Error("a manifest is the head of a tree")
	}
	// A proof is about the tree at that time, even after later additions.
	tree, err := l.Root(l.Tree().N)
	if err != nil || tree != l.Tree() {
		t.Fatalf("Root: %v, %v", tree, err)
	}
	mustAdd(t, l, record("8.0.0", "a"))
	number, text, err := l.Number(vpc.At("8.0.0"))
	if err != nil || number != tree.N || !strings.Contains(string(text), " v8.0.0 ") {
		t.Fatalf("Number: %d, %q, %v", number, text, err)
	}
	now := l.Tree()
	proof, err := l.Prove(number, now.N)
	if err != nil || tlog.CheckRecord(proof, now.N, now.Hash, number, tlog.RecordHash(text)) != nil {
		t.Errorf("Prove: %v", err)
	}
	grown, err := l.ProveTree(tree.N, now.N)
	if err != nil || tlog.CheckTree(grown, now.N, now.Hash, tree.N, tree.Hash) != nil {
		t.Errorf("ProveTree: %v", err)
	}
	if _, err := l.Root(now.N + 1); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("Root of a tree that there is not: %v", err)
	}
	if _, _, err := l.Number(vpc.At("8.0.1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Number of what there is not: %v", err)
	}
}
