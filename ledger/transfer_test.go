package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

func export(t testing.TB, l *ledger.Log) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := l.Export(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func trust(t testing.TB, l *ledger.Log) note.Verifiers {
	t.Helper()
	v, err := note.NewVerifier(l.VerifierKey())
	if err != nil {
		t.Fatal(err)
	}
	return note.VerifierList(v)
}

func wantImport(t *testing.T, to *ledger.Log, content []byte, from note.Verifiers, want int64) {
	t.Helper()
	if n, err := to.Import(t.Context(), bytes.NewReader(content), from); err != nil || n != want {
		t.Errorf("Import = %d, %v; want %d", n, err, want)
	}
}

func some(t *testing.T) *ledger.Log {
	t.Helper()
	dir := t.TempDir()
	writeSome(t, dir)
	return mustOpen(t, dir)
}

func TestImport(t *testing.T) {
	from := some(t)
	first := export(t, from)
	dir := t.TempDir()
	to := mustOpen(t, dir)
	empty := mustOpen(t, t.TempDir())
	wantImport(t, to, export(t, empty), trust(t, empty), 0)
	wantImport(t, to, first, trust(t, from), 6)
	if to.Tree() != from.Tree() || to.VerifierKey() == from.VerifierKey() {
		t.Errorf("tree %v, want %v, under another key", to.Tree(), from.Tree())
	}
	mustAdd(t, from, record("9.1.0", "a"), record("9.2.0", "a"))
	second := export(t, from)
	wantImport(t, to, second, trust(t, from), 2)
	wantImport(t, to, second, trust(t, from), 0)
	wantImport(t, to, first, trust(t, from), 0)
	wantImport(t, to, export(t, to), trust(t, to), 0)
	if to.Tree() != from.Tree() {
		t.Errorf("tree %v, want %v", to.Tree(), from.Tree())
	}
	for _, l := range []*ledger.Log{from, to} { // both know the rules
		if err := l.Add(t.Context(), record("9.2.0", "b")); !errors.Is(err, modproxy.ErrChanged) {
			t.Errorf("Add of another sum = %v", err)
		}
		mustAdd(t, l, record("9.3.0", "a"))
		if list, next, err := l.Decisions(t.Context(), 0); err != nil || len(list) != 1 || next != 1 || list[0] != ledgertest.NewDecision(vpc, modproxy.Block, "< 1.1.0") {
			t.Errorf("Decisions = %v, %d, %v", list, next, err)
		}
		if r, err := l.Lookup(t.Context(), vpc.At("1.1.0")); err != nil || r.Reason == "" {
			t.Errorf("Lookup = %v, %v", r, err)
		}
	}
	to.Close()
	if again := mustOpen(t, dir); again.Tree() != from.Tree() {
		t.Errorf("tree %v when it was opened again, want %v", again.Tree(), from.Tree())
	}
}

func TestImportRefuses(t *testing.T) {
	from, to := some(t), some(t)
	before := to.Tree()
	mustAdd(t, from, record("9.1.0", "a"))
	whole := export(t, from)
	fork, decided := mustOpen(t, t.TempDir()), mustOpen(t, t.TempDir())
	mustAdd(t, fork, record("1.0.0", "a"), record("1.1.0", "c"))
	mustAdd(t, decided, record("1.0.0", "a"), record("1.1.0", "a"))
	if err := decided.Decide(t.Context(), ledgertest.NewDecision(vpc, modproxy.Block, "")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what    string
		content []byte
		trust   note.Verifiers
		err     error
	}{
		{"a key that is not trusted", whole, trust(t, to), modproxy.ErrDenied},
		{"a fork", export(t, fork), trust(t, fork), modproxy.ErrChanged},
		{"a fork by a decision", export(t, decided), trust(t, decided), modproxy.ErrChanged},
		{"nothing", nil, trust(t, from), modproxy.ErrInvalid},
		{"a log", whole[bytes.Index(whole, []byte("modproxy ledger 1\n")):], trust(t, from), modproxy.ErrInvalid},
		{"more than the head says", append(bytes.Clone(whole), whole[bytes.Index(whole, []byte("\n0 "))+1:]...), trust(t, from), modproxy.ErrInvalid},
		{"a long line", bytes.Repeat([]byte("x"), 1<<20), trust(t, from), modproxy.ErrInvalid},
		{"a long head", []byte("modproxy ledger export 1 999999999999\n"), trust(t, from), modproxy.ErrInvalid},
	} {
		if n, err := to.Import(t.Context(), bytes.NewReader(c.content), c.trust); n != 0 || !errors.Is(err, c.err) {
			t.Errorf("Import of %s = %d, %v; want %v", c.what, n, err, c.err)
		}
	}
	for i := 0; i < len(whole); i += step(11) {
		if _, err := to.Import(t.Context(), bytes.NewReader(whole[:i]), trust(t, from)); !errors.Is(err, modproxy.ErrInvalid) {
			t.Fatalf("Import of %d bytes of %d = %v, want ErrInvalid", i, len(whole), err)
		}
		flipped := bytes.Clone(whole)
		flipped[i] ^= 1
		if _, err := to.Import(t.Context(), bytes.NewReader(flipped), trust(t, from)); !errors.Is(err, modproxy.ErrInvalid) && !errors.Is(err, modproxy.ErrDenied) {
			t.Fatalf("Import with byte %d flipped = %v", i, err)
		}
	}
	if to.Tree() != before {
		t.Errorf("something was imported: %v, was %v", to.Tree(), before)
	}
	wantImport(t, to, whole, trust(t, from), 1)
}

// TestImportForeignTexts: an export with a valid signature is refused if a text is not in the format of a ledger. The log could
// not read such a text and could never remove it.
func TestImportForeignTexts(t *testing.T) {
	first, drift := textOf(t, record("1.0.0", "a")), textOf(t, ledger.Drift{
		Ref: vpc.At("1.0.0"), Recorded: record("1.0.0", "a").Sum, Offered: record("1.0.0", "b").Sum, Time: record("1.0.0", "a").Time,
	})
	decision := textOf(t, ledgertest.NewDecision(vpc, modproxy.Block, "1.0.0"))
	for what, text := range map[string][]byte{
		"a decision with a line more": append(bytes.Clone(decision), "whatever\n"...),
		"a decision that is unknown":  bytes.Replace(decision, []byte(" block\n"), []byte(" allow\n"), 1),
		"a decision of nobody":        bytes.Replace(decision, []byte("\nby "), []byte("\nBy "), 1),
		"a decision about nothing":    bytes.Replace(decision, []byte("\nversions "), []byte("\nversions of "), 1),
		"no module":                   bytes.Replace(first, []byte(vpc.String()), []byte("not a module"), 1),
		"no version":                  bytes.Replace(first, []byte(" v1.0.0 "), []byte(" newest "), 1),
		"a line more":                 append(bytes.Clone(first), "whatever\n"...),
		"no time":                     bytes.Replace(first, []byte("\ntime "), []byte("\nTime "), 1),
		"two texts in one":            append(bytes.Clone(first), first...),
		"a drift with a line more":    append(bytes.Clone(drift), "whatever\n"...),
	} {
		dir := t.TempDir()
		to := mustOpen(t, t.TempDir())
		from := mustOpen(t, dir)
		from.Close()
		forge(t, dir, first, bytes.ReplaceAll(text, []byte("v1.0.0"), []byte("v1.1.0")))
		if bytes.HasPrefix(text, []byte("drift")) {
			forge(t, dir, first, text)
		}
		head := read(t, dir, "head")
		export := fmt.Appendf(nil, "modproxy ledger export 1 %d\n%s%s", len(head), head, read(t, dir, "log"))
		if n, err := to.Import(t.Context(), bytes.NewReader(export), trust(t, from)); n != 0 || !errors.Is(err, modproxy.ErrInvalid) || to.Tree().N != 0 {
			t.Errorf("Import of %s = %d, %v; want ErrInvalid", what, n, err)
		}
		wantNewer(t, "with "+what, dir)
	}
}

// TestImportMeanwhile: additions continue while an export is read.
func TestImportMeanwhile(t *testing.T) {
	from, to := mustOpen(t, t.TempDir()), mustOpen(t, t.TempDir())
	for i := range 100 {
		mustAdd(t, from, record(fmt.Sprintf("1.%d.0", i), "a"))
	}
	content := export(t, from)
	r := readerFunc(func(p []byte) (int, error) {
		if to.Tree().N == 0 {
			mustAdd(t, to, record("1.0.0", "a")) // the first record of the export
		}
		n := copy(p, content[:min(100, len(content))])
		content = content[n:]
		if n == 0 {
			return 0, errEnd
		}
		return n, nil
	})
	if n, err := to.Import(t.Context(), r, trust(t, from)); !errors.Is(err, errEnd) || n != 0 {
		t.Errorf("Import of what cannot be read to its end = %d, %v", n, err)
	}
	wantImport(t, to, export(t, from), trust(t, from), 99)
	if to.Tree() != from.Tree() {
		t.Error("it is another tree")
	}
}

var errEnd = errors.New("the disk was pulled out")

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
