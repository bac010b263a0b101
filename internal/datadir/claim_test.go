package datadir

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustClaim(t *testing.T, dir string) *Claim {
	t.Helper()
	c, err := NewClaim(dir)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestClaim(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	c := mustClaim(t, dir)
	if _, err := NewClaim(dir); !errors.Is(err, ErrClaimed) {
		t.Errorf("a directory was claimed twice: %v", err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
	must(t, c.Close())
	mustClaim(t, dir)
}

// The error for a second proxy names the process that has the directory. A second proxy waits for a verb.
func TestClaimToServe(t *testing.T) {
	dir := t.TempDir()
	c := mustClaim(t, dir)
	c.Announce("http://127.0.0.1:1")
	if _, err := ClaimToServe(t.Context(), dir, Patience{}); !errors.Is(err, ErrClaimed) || !strings.HasSuffix(err.Error(), ", at http://127.0.0.1:1") {
		t.Errorf("a directory from which a proxy serves: %v", err)
	}
	must(t, c.Close())
	if owner := ownerOf(dir); owner != "" {
		t.Errorf("the text of a released lock is %q", owner)
	}
	c = mustClaim(t, dir)
	waiting := make(chan *Claim)
	go func() {
		next, err := ClaimToServe(t.Context(), dir, Patience{})
		if err != nil {
			t.Error(err)
		}
		waiting <- next
	}()
	must(t, c.Close())
	next := <-waiting
	must(t, os.WriteFile(filepath.Join(dir, lockName), []byte("process 1, at nowhere"), 0o600))
	must(t, next.Close())
	mustClaim(t, dir)
	if owner := ownerOf(dir); owner != "" {
		t.Errorf("the text in the lock of a process that does not serve is %q", owner)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ClaimToServe(ctx, dir, Patience{}); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting after the end: %v", err)
	}
}

// A proxy waits for one that is ending, and reports it. It does not wait for longer than its patience, also for one that does not end.
func TestClaimOfEndingProcess(t *testing.T) {
	dir := t.TempDir()
	c := mustClaim(t, dir)
	c.Announce("http://127.0.0.1:1")
	c.End()
	_, err := ClaimToServe(t.Context(), dir, Patience{Ending: time.Millisecond})
	if !errors.Is(err, ErrClaimed) || !strings.HasSuffix(err.Error(), ", at http://127.0.0.1:1, which is ending") {
		t.Errorf("a directory whose process does not end in time: %v", err)
	}
	owners := make(chan string, 1)
	waiting := make(chan error)
	go func() {
		next, err := ClaimToServe(t.Context(), dir, Patience{Ending: time.Hour, Begins: func(owner string) { owners <- owner }})
		if err == nil {
			err = next.Close()
		}
		waiting <- err
	}()
	if owner := <-owners; !strings.Contains(owner, "at http://127.0.0.1:1") {
		t.Errorf("it waits for %q", owner)
	}
	must(t, c.Close())
	must(t, <-waiting)

	c = mustClaim(t, dir)
	c.Announce("http://127.0.0.1:1")
	go func() {
		next, err := ClaimToServe(t.Context(), dir, Patience{Serving: time.Hour, Ending: time.Hour})
		if err == nil {
			err = next.Close()
		}
		waiting <- err
	}()
	must(t, c.Close())
	must(t, <-waiting)
}

// Only the owner can connect to the socket. Listen replaces a socket that was left behind, and no other file.
func TestListen(t *testing.T) {
	dir := t.TempDir()
	c := mustClaim(t, dir)
	name := filepath.Join(dir, socketName)
	for _, left := range []string{"nothing", "a socket"} {
		l, err := c.Listen()
		if err != nil {
			t.Fatalf("%s was left: %v", left, err)
		}
		if info, err := os.Lstat(name); err != nil || info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
		if left == "nothing" {
			l.(*net.UnixListener).SetUnlinkOnClose(false) // as if the process were killed
			must(t, l.Close())
			continue
		}
		must(t, l.Close())
	}
	if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket stayed: %v", err)
	}
	must(t, os.WriteFile(name, []byte("precious"), 0o600))
	if _, err := c.Listen(); err == nil || !strings.Contains(err.Error(), "it is not a socket") {
		t.Errorf("a file was replaced: %v", err)
	}
	must(t, c.Close())
	must(t, os.Remove(name))
	must(t, os.Symlink(filepath.Join(dir, "elsewhere"), name))
	if _, err := NewClaim(dir); err == nil || !strings.Contains(err.Error(), "it is a symbolic link") {
		t.Errorf("a link in the place of the socket: %v", err)
	}
}

// A socket's address has at most about a hundred bytes, and a directory's path may be longer.
func TestListenLongPath(t *testing.T) {
	dir := t.TempDir()
	for range 5 {
		dir = filepath.Join(dir, strings.Repeat("long", 25))
	}
	t.Setenv("TMPDIR", t.TempDir())
	c := mustClaim(t, dir)
	l, err := c.Listen()
	must(t, err)
	conn, err := dialSocket(t.Context(), dir)
	must(t, err)
	must(t, conn.Close())
	must(t, l.Close())
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := dialSocket(t.Context(), dir); err == nil {
		t.Error("the socket is still there")
	}
}
