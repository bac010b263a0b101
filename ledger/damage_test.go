package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/test/rig"
)

// step returns the distance of the bytes of a file that a test changes: n in the short form, and 1 in the long form.
func step(n int) int {
	if rig.Long() {
		return 1
	}
	return n
}

func TestFlippedBits(t *testing.T) {
	dir := t.TempDir()
	writeSome(t, dir)
	for _, name := range []string{"log", "head", "key"} {
		whole := read(t, dir, name)
		for i := 0; i < len(whole); i += step(11) {
			for _, mask := range [][]byte{{0x01, 0x20}, {0x01}, {0x20}}[min(i, 1000)%3] { // another character, or another case
				flipped := bytes.Clone(whole)
				flipped[i] ^= mask
				write(t, flipped, dir, name)
				if l, err := ledger.Open(dir); !errors.Is(err, ledger.ErrDamaged) {
					t.Fatalf("%s with byte %d flipped by %#x: %v, %v; want ErrDamaged", name, i, mask, l, err)
				}
			}
		}
		write(t, whole, dir, name)
	}
	if n := mustOpen(t, dir).Tree().N; n != 6 {
		t.Errorf("%d records, want 6", n)
	}
}

// TestCutShort: acknowledged records are never given up, not even their last byte.
func TestCutShort(t *testing.T) {
	dir := t.TempDir()
	writeSome(t, dir)
	for _, name := range []string{"log", "head", "key"} {
		whole := read(t, dir, name)
		for i := len(whole) - 1; i >= 0; i -= step(3) { // first the last byte
			if name == "log" && i > 30 && i < len(whole)-250 {
				continue
			}
			write(t, whole[:i], dir, name)
			wantDamaged(t, fmt.Sprintf("%s cut to %d bytes", name, i), dir)
		}
		write(t, append(bytes.Clone(whole), '\n'), dir, name)
		if name != "log" {
			wantDamaged(t, name+" with a byte more", dir)
		}
		write(t, whole, dir, name)
	}
}

// unacknowledged returns a directory after a crash between the log and the head, the acknowledged part of the log, and the
// whole log.
func unacknowledged(t *testing.T) (dir string, log, whole []byte) {
	t.Helper()
	dir = t.TempDir()
	writeSome(t, dir)
	log, head := read(t, dir, "log"), read(t, dir, "head")
	l := mustOpen(t, dir)
	mustAdd(t, l, record("9.1.0", "a"))
	l.Close()
	whole = read(t, dir, "log")
	write(t, head, dir, "head")
	return dir, log, whole
}

func TestTornTail(t *testing.T) {
	dir, log, whole := unacknowledged(t)
	zeros, garbage := append(bytes.Clone(log), make([]byte, 5000)...), append(bytes.Clone(log), bytes.Repeat([]byte("x"), 5000)...)
	flipped := bytes.Clone(whole)
	flipped[len(log)+90] ^= 1
	torn := [][]byte{zeros, garbage, flipped}
	for i := len(log) + 1; i < len(whole); i += step(7) {
		torn = append(torn, whole[:i])
	}
	for _, content := range torn {
		at := copyDir(t, dir)
		write(t, content, at, "log")
		l := mustOpen(t, at)
		if _, err := l.Lookup(t.Context(), vpc.At("9.0.0")); err != nil || l.Tree().N != 6 {
			t.Fatalf("%d bytes of %d: %d records, %v; want 6", len(content), len(whole), l.Tree().N, err)
		}
		if !bytes.Equal(read(t, at, "log"), log) {
			t.Fatalf("%d bytes of %d: the log is not what was acknowledged", len(content), len(whole))
		}
		mustAdd(t, l, record("9.2.0", "a"))
		l.Close()
		if n := mustOpen(t, at).Tree().N; n != 7 {
			t.Fatalf("%d bytes of %d: %d records after one more, want 7", len(content), len(whole), n)
		}
	}
	if n := mustOpen(t, dir).Tree().N; n != 7 { // nothing is torn: the last record stays
		t.Errorf("%d records, want 7", n)
	}
}

// TestTailOnFullDisk: on a full disk, a log with an unacknowledged record still opens, without that record.
func TestTailOnFullDisk(t *testing.T) {
	dir, log, whole := unacknowledged(t)
	for name, c := range map[string]struct {
		log []byte
		n   int64 // records that remain
	}{
		"log.":  {whole, 6},
		"head.": {whole, 6},
	} {
		at, failed := copyDir(t, dir), false
		write(t, c.log, at, "log")
		l, err := ledger.OpenSync(at, func(f *os.File) error {
			if !strings.HasPrefix(filepath.Base(f.Name()), name) {
				return nil
			}
			failed = true
			return syscall.ENOSPC
		})
		if err != nil || !failed {
			t.Errorf("no room for %s: %v", name, err)
			continue
		}
		if n := l.Tree().N; n != c.n {
			t.Errorf("no room for %s: %d records, want %d", name, n, c.n)
		}
		for file := range files(t, at) {
			if strings.HasSuffix(file, ".tmp") {
				t.Errorf("no room for %s: %s is left", name, file)
			}
		}
		l.Close()
		l = mustOpen(t, at)
		mustAdd(t, l, record("9.2.0", "a"))
		if n := l.Tree().N; n != c.n+1 || !bytes.HasPrefix(read(t, at, "log"), log) {
			t.Errorf("no room for %s: %d records after one more, want %d", name, n, c.n+1)
		}
		l.Close()
	}
}

// TestTailOnFullDirectory: a new head may be on the disk although its flush failed, so the log must keep all records that it
// covers.
func TestTailOnFullDirectory(t *testing.T) {
	dir, _, _ := unacknowledged(t)
	head := false
	l, err := ledger.OpenSync(dir, func(f *os.File) error {
		head = head || strings.HasPrefix(filepath.Base(f.Name()), "head.")
		if head && f.Name() == dir {
			return syscall.ENOSPC
		}
		return nil
	})
	if err == nil {
		l.Close()
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("no room for the name of the head: %v", err)
	}
	if n := mustOpen(t, dir).Tree().N; n != 7 {
		t.Errorf("%d records are left, want 7", n)
	}
}

func TestMissing(t *testing.T) {
	dir := t.TempDir()
	writeSome(t, dir)
	names := []string{"log", "head", "key"}
	for missing := 1; missing < 7; missing++ {
		at, what := copyDir(t, dir), ""
		for i, name := range names {
			if missing&(1<<i) != 0 {
				what += " " + name
				if err := os.Remove(filepath.Join(at, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		wantDamaged(t, "without"+what, at)
	}
}

func TestForeign(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	writeSome(t, dir)
	writeSome(t, other)
	for _, name := range []string{"head", "key"} {
		at := copyDir(t, dir)
		write(t, read(t, other, name), at, name)
		wantDamaged(t, "with the "+name+" of another ledger", at)
	}
	at := copyDir(t, dir)
	forge(t, at, textOf(t, record("1.0.0", "a")), textOf(t, record("2.0.0", "a")))
	log := read(t, at, "log")
	forge(t, at, textOf(t, record("1.0.0", "a")), textOf(t, record("2.0.0", "b")))
	write(t, log, at, "log")
	wantDamaged(t, "with a record that the head is not about", at)
}

func TestRollback(t *testing.T) {
	dir := t.TempDir()
	writeSome(t, dir)
	log := read(t, dir, "log")
	l := mustOpen(t, dir)
	mustAdd(t, l, record("9.1.0", "a"))
	l.Close()
	write(t, log, dir, "log")
	wantDamaged(t, "with an older log", dir)
}

// TestRules: even a log that is signed with the right key must obey the rules.
func TestRules(t *testing.T) {
	first, accepted := record("1.0.0", "a"), record("1.0.0", "b")
	accepted.Reason = "why"
	drift := ledger.Drift{Ref: vpc.At("1.0.0"), Recorded: first.Sum, Offered: accepted.Sum, Time: first.Time}
	host := ledger.OwnHost{Host: "one.example.com", Time: first.Time}
	for what, records := range map[string][]any{
		"a second first record":           {first, record("1.0.0", "b")},
		"a record twice":                  {first, first},
		"an acceptance of nothing":        {accepted},
		"an acceptance of what counts":    {first, accepted, accepted},
		"a drift of nothing":              {drift},
		"a drift twice":                   {first, drift, drift},
		"a first record after acceptance": {first, accepted, first},
		"a host of own modules twice":     {host, host},
	} {
		dir := t.TempDir()
		mustOpen(t, dir).Close()
		var texts [][]byte
		for _, r := range records {
			texts = append(texts, textOf(t, r))
		}
		forge(t, dir, texts[0])
		if len(texts) > 1 {
			mustOpen(t, dir).Close()
		}
		forge(t, dir, texts...)
		wantDamaged(t, what, dir)
	}
}

// A record of unknown form is that of a later version, also if known records refer to it. If the head does not match the log, the record is
// damage.
func TestLaterRecord(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, dir).Close()
	accepted := record("1.0.0", "b")
	accepted.Reason = "why"
	forge(t, dir, []byte("attestation of later versions\n"), textOf(t, accepted))
	wantNewer(t, "a record of unknown form", dir)
	forge(t, dir, textOf(t, record("1.0.0", "a")))
	head := read(t, dir, "head")
	forge(t, dir, []byte("attestation of later versions\n"))
	write(t, head, dir, "head")
	wantDamaged(t, "a record of unknown form that is not signed", dir)

	forge(t, dir, textOf(t, record("1.0.0", "a")))
	head = read(t, dir, "head")
	forge(t, dir, textOf(t, record("1.0.0", "a")), []byte("attestation of later versions\n"))
	write(t, head, dir, "head")
	wantNewer(t, "a record of unknown form behind those that the head covers", dir)
}

// TestNotNew: a log that lost its head is not taken for a new log, even if it is empty.
func TestNotNew(t *testing.T) {
	empty := t.TempDir()
	mustOpen(t, empty).Close()
	for _, there := range [][]string{{"log"}, {"log", "key"}, {"log", "head"}, {"key"}} {
		dir := t.TempDir()
		for _, name := range there {
			write(t, read(t, empty, name), dir, name)
		}
		wantDamaged(t, fmt.Sprintf("only %v, of an empty one", there), dir)
	}
	dir := t.TempDir()
	writeSome(t, dir)
	write(t, read(t, dir, "log")[:len("modproxy ledger 1\n")], dir, "log")
	for _, name := range []string{"head", "key"} { // the head first: its loss must be noticed while the key exists
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		wantDamaged(t, "with nothing left of the log, and no "+name, dir)
	}
	for _, content := range []string{"", "modproxy", "go.sum database tree\nx\n"} {
		dir := t.TempDir()
		write(t, []byte(content), dir, "head")
		wantDamaged(t, fmt.Sprintf("with nothing but a head %q", content), dir)
	}
}

// TestLaterVersion: a log of a later version is not reported as damaged, because a backup would not help.
func TestLaterVersion(t *testing.T) {
	dir := t.TempDir()
	writeSome(t, dir)
	log := read(t, dir, "log")
	for _, version := range []string{"2", "10"} {
		write(t, bytes.Replace(log, []byte("ledger 1\n"), []byte("ledger "+version+"\n"), 1), dir, "log")
		wantNewer(t, "a log of version "+version, dir)
	}
	to := mustOpen(t, t.TempDir())
	if _, err := to.Import(t.Context(), strings.NewReader("modproxy ledger export 2 whatever\n"), nil); !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), "newer modproxy") {
		t.Errorf("an export of version 2: %v", err)
	}
}

// TestCreationInterrupted: a crash during creation does not prevent the next creation.
func TestCreationInterrupted(t *testing.T) {
	whole := t.TempDir()
	mustOpen(t, whole).Close()
	for _, there := range [][]string{{}, {"head"}, {"head", "key"}, {"head", "key", "log"}} {
		dir := filepath.Join(t.TempDir(), "data", "ledger")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range there {
			write(t, read(t, whole, name), dir, name)
		}
		write(t, []byte("half"), dir, "key.tmp")
		if l, err := ledger.OpenReadOnly(dir); errors.Is(err, ledger.ErrNotCreated) != (len(there) < 3) || errors.Is(err, ledger.ErrDamaged) {
			t.Errorf("with %v, for reading: %v", there, err)
		} else if err == nil {
			l.Close()
		}
		mustAdd(t, mustOpen(t, dir), record("1.0.0", "a"))
		if _, err := os.Stat(filepath.Join(dir, "key.tmp")); err == nil {
			t.Errorf("with %v: a temporary file is left", there)
		}
		if info, err := os.Stat(filepath.Join(dir, "key")); err != nil || info.Mode() != 0o600 {
			t.Errorf("with %v: the key: %v, %v", there, info.Mode(), err)
		}
	}
}
