package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

// TestPowerCut: acknowledged records survive a power cut at any moment.
func TestPowerCut(t *testing.T) {
	dir := t.TempDir()
	m := newMedium(dir)
	acknowledged, decided, cuts := 0, 0, 0
	m.cut = func(when string) {
		cuts++
		l, err := ledger.Open(m.after(t))
		if err != nil {
			t.Errorf("after %d records, %s: %v", acknowledged, when, err)
			return
		}
		defer l.Close()
		if n := l.Tree().N; n < int64(acknowledged) {
			t.Errorf("after %d records, %s: %d are left", acknowledged, when, n)
		}
		if list, _, err := l.Decisions(t.Context(), 0); err != nil || len(list) < decided {
			t.Errorf("after %d decisions, %s: %d are left, %v", decided, when, len(list), err)
		}
		for i := range acknowledged {
			if _, err := l.Lookup(t.Context(), vpc.At(fmt.Sprintf("1.%d.0", i))); err != nil {
				t.Errorf("after %d records, %s: %v", acknowledged, when, err)
			}
		}
		mustAdd(t, l, record("2.0.0", "a"))
	}
	l, err := ledger.OpenSync(dir, m.sync)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for ; acknowledged < 4; acknowledged++ {
		mustAdd(t, l, record(fmt.Sprintf("1.%d.0", acknowledged), "a"))
		if err := l.Decide(t.Context(), ledgertest.NewDecision(vpc, modproxy.Block, "")); err != nil {
			t.Fatal(err)
		}
		decided++
	}
	m.cut("at the end")
	if cuts < 8*6 {
		t.Errorf("the power was cut %d times only", cuts)
	}
}

// TestPowerCutAfterCrash: records behind the head may not be on the disk yet after a crash.
func TestPowerCutAfterCrash(t *testing.T) {
	dir, acknowledged, _ := unacknowledged(t)
	m := newMedium(dir)
	for name, content := range map[string][]byte{"log": acknowledged, "head": read(t, dir, "head"), "key": read(t, dir, "key")} {
		info, err := os.Stat(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		m.names[name], m.content[inode(info)] = inode(info), content
	}
	m.cut = func(when string) {
		l, err := ledger.Open(m.after(t))
		if err != nil {
			t.Errorf("%s: %v", when, err)
			return
		}
		defer l.Close()
		if n := l.Tree().N; n < 6 {
			t.Errorf("%s: %d records are left", when, n)
		}
	}
	l, err := ledger.OpenSync(dir, m.sync)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mustAdd(t, l, record("9.2.0", "a"))
}

// TestGroupCommit: one flush writes all entries that wait for it, except further ones of the same version.
func TestGroupCommit(t *testing.T) {
	begun, block, flushes := make(chan bool), make(chan bool), -1 // -1: flushes while the log is opened do not count
	l, err := ledger.OpenSync(t.TempDir(), func(*os.File) error {
		if flushes < 0 {
			return nil
		}
		if flushes++; flushes == 1 {
			begun <- true
			<-block
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const versions = 10
	results := make(chan error)
	add := func(r ledger.Record) { results <- l.Add(t.Context(), r) }
	flushes = 0
	go add(record("0.0.0", "a"))
	<-begun
	for i := range versions {
		for _, seed := range []string{"a", "a", "b"} {
			go add(record(fmt.Sprintf("1.%d.0", i), seed))
		}
	}
	for deadline := time.Now().Add(time.Minute); ledger.Waiting(l) < 3*versions && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	close(block)
	changed := 0 // per version: one of its three additions if the two equal ones come first, else two
	for range 3*versions + 1 {
		switch err := <-results; {
		case errors.Is(err, modproxy.ErrChanged):
			changed++
		case err != nil:
			t.Error(err)
		}
	}
	if changed < versions || changed > 2*versions || l.Tree().N != versions+1 {
		t.Errorf("%d changed, %d records; want %d to %d, and %d", changed, l.Tree().N, versions, 2*versions, versions+1)
	}
	if flushes != 2*3 { // two flushes each of the log, the head and the directory
		t.Errorf("%d flushes, want 6", flushes)
	}
}

// TestCallerGone: an entry whose caller has left is written with the waiting entries, and counts before later ones.
func TestCallerGone(t *testing.T) {
	begun, block, flushes := make(chan bool), make(chan bool), -1 // -1: flushes while the log is opened do not count
	l, err := ledger.OpenSync(t.TempDir(), func(*os.File) error {
		if flushes >= 0 {
			if flushes++; flushes == 1 {
				begun <- true
				<-block
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	flushes = 0
	first, gone, last := make(chan error), make(chan error), make(chan error)
	go func() { first <- l.Add(t.Context(), record("0.0.0", "a")) }()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	go func() { gone <- l.Add(ctx, record("1.0.0", "a")) }()
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("Add of a caller that has gone = %v", err)
	}
	go func() { last <- l.Add(t.Context(), record("1.0.0", "b")) }()
	for deadline := time.Now().Add(time.Minute); ledger.Waiting(l) < 2 && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	close(block)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := <-last; !errors.Is(err, modproxy.ErrChanged) {
		t.Errorf("Add of another sum = %v, want ErrChanged", err)
	}
	if r, err := l.Lookup(t.Context(), vpc.At("1.0.0")); err != nil || r.Sum != record("1.0.0", "a").Sum {
		t.Errorf("recorded %v, %v", r.Sum, err)
	}
}

// TestFlushFails: after a failed flush the log refuses additions but serves its records, and the next start reads what the disk
// has.
func TestFlushFails(t *testing.T) {
	for failAt := 1; ; failAt++ {
		dir := t.TempDir()
		m := newMedium(dir)
		m.failAt = failAt
		l, err := ledger.OpenSync(dir, m.sync)
		if err != nil {
			if !errors.Is(err, errFlush) {
				t.Errorf("flush %d: %v", failAt, err)
			}
			mustOpen(t, dir).Close()
			continue
		}
		acknowledged := 0
		for acknowledged < 3 && err == nil {
			if err = l.Add(t.Context(), record(fmt.Sprintf("1.%d.0", acknowledged), "a")); err == nil {
				acknowledged++
			}
		}
		if err == nil {
			l.Close()
			if failAt < 12 {
				t.Errorf("only %d flushes", failAt)
			}
			return
		}
		if !errors.Is(err, modproxy.ErrUnavailable) || !errors.Is(err, errFlush) || !strings.Contains(err.Error(), "restarted") {
			t.Errorf("flush %d: %v", failAt, err)
		}
		if err := l.Add(t.Context(), record("2.0.0", "a")); !errors.Is(err, modproxy.ErrUnavailable) || l.Failed() == nil {
			t.Errorf("flush %d: Add after that = %v", failAt, err)
		}
		for _, l := range []*ledger.Log{l, reopen(t, l, dir)} {
			for i := range acknowledged {
				if _, err := l.Lookup(t.Context(), vpc.At(fmt.Sprintf("1.%d.0", i))); err != nil {
					t.Errorf("flush %d: %v", failAt, err)
				}
			}
			if l.Failed() == nil {
				mustAdd(t, l, record("2.0.0", "a"))
				l.Close()
			}
		}
	}
}

// TestFlushFailsOnce: after a failed flush, the next flush succeeds, because the kernel takes the lost pages for written. The
// records that the next start reads may therefore be in memory only. Records that it acknowledges must be on the disk
// nevertheless.
func TestFlushFailsOnce(t *testing.T) {
	versions := func(l *ledger.Log, from, n int) (added []string) {
		for i := from; i < from+n; i++ {
			version := fmt.Sprintf("1.%d.0", i)
			if err := l.Add(t.Context(), record(version, "a")); err != nil {
				break
			}
			added = append(added, version)
		}
		return added
	}
	for failAt := 1; ; failAt++ {
		dir := t.TempDir()
		m := newMedium(dir)
		m.failAt = failAt
		var acknowledged []string
		l, err := ledger.OpenSync(dir, m.sync)
		if err == nil {
			acknowledged = versions(l, 0, 3)
			l.Close()
		}
		if m.flushes < failAt {
			if failAt < 12 {
				t.Errorf("only %d flushes", failAt)
			}
			return
		}
		if l, err = ledger.OpenSync(dir, m.sync); err != nil {
			t.Errorf("flush %d: %v", failAt, err)
			continue
		}
		found := l.Tree().N
		acknowledged = append(acknowledged, versions(l, 2, 3)...)
		l.Close()
		if l, err = ledger.OpenSync(m.after(t), m.sync); err != nil {
			t.Errorf("flush %d, %d records found at the next start: %v", failAt, found, err)
			continue
		}
		for _, version := range acknowledged {
			if _, err := l.Lookup(t.Context(), vpc.At(version)); err != nil {
				t.Errorf("flush %d: %v", failAt, err)
			}
		}
		l.Close()
		m.lose.Close()
	}
}

// reopen opens a copy of the directory of a log that is not closed.
func reopen(t *testing.T, l *ledger.Log, dir string) *ledger.Log {
	t.Helper()
	return mustOpen(t, copyUnlocked(t, dir))
}

// TestWriteFails: after a full disk, the log accepts additions again without a restart.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	mustAdd(t, l, record("1.0.0", "a"))
	log := read(t, dir, "log")
	head := read(t, dir, "head")
	if err := errors.Join(os.Remove(dir+"/head"), os.Mkdir(dir+"/head", 0o700)); err != nil { // a directory in its place: no head can be written
		t.Fatal(err)
	}
	if err := l.Add(t.Context(), record("1.1.0", "a")); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("Add = %v, want ErrUnavailable", err)
	}
	if _, err := l.Lookup(t.Context(), vpc.At("1.1.0")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Lookup of what was not acknowledged = %v", err)
	}
	if string(read(t, dir, "log")) != string(log) {
		t.Error("the log was not taken back")
	}
	if err := os.Remove(dir + "/head"); err != nil {
		t.Fatal(err)
	}
	write(t, head, dir, "head")
	mustAdd(t, l, record("1.2.0", "a"))
	l.Close()
	if n := mustOpen(t, dir).Tree().N; n != 2 {
		t.Errorf("%d records, want 2", n)
	}
}
