//go:build unix && !solaris && !aix

package filelock_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy/internal/filelock"
)

func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestTry(t *testing.T) {
	type lock = func(*os.File) error
	for name, test := range map[string]struct {
		first, second lock
		want          error
	}{
		"exclusive, exclusive": {filelock.TryLock, filelock.TryLock, filelock.ErrLocked},
		"exclusive, shared":    {filelock.TryLock, filelock.TryRLock, filelock.ErrLocked},
		"shared, exclusive":    {filelock.TryRLock, filelock.TryLock, filelock.ErrLocked},
		"shared, shared":       {filelock.TryRLock, filelock.TryRLock, nil},
	} {
		path := filepath.Join(t.TempDir(), "lock")
		a, b := open(t, path), open(t, path)
		if err := test.first(a); err != nil {
			t.Fatal(err)
		}
		if err := test.second(b); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
		a.Close()
		if err := filelock.TryLock(b); err != nil {
			t.Errorf("%s: after the first was closed: %v", name, err)
		}
	}
}

func TestLockWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	synctest.Test(t, func(t *testing.T) {
		a, b := open(t, path), open(t, path)
		if err := filelock.Lock(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := filelock.Lock(ctx, b); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, filelock.ErrLocked) {
			t.Errorf("locked by another: %v", err)
		}
		done := make(chan error)
		go func() { done <- filelock.Lock(t.Context(), b) }()
		time.Sleep(time.Minute)
		a.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A lock ends with its process.
func TestProcessEnds(t *testing.T) {
	if path := os.Getenv("FILELOCK_TEST"); path != "" {
		if err := filelock.TryLock(open(t, path)); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("locked\n")
		io.Copy(io.Discard, os.Stdin) // until it is killed; select would be a deadlock
	}
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(os.Args[0], "-test.run", "^TestProcessEnds$")
	cmd.Env = append(os.Environ(), "FILELOCK_TEST="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil { // open until Wait
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	f := open(t, path)
	if err := filelock.TryLock(f); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("another process has it: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait() // it was killed
	if err := filelock.TryLock(f); err != nil {
		t.Error(err)
	}
}
