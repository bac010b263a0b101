package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
)

// Processes that git started, and does not wait for, end with git.
func TestWhatGitLeaves(t *testing.T) {
	var pid int
	c := command{
		dir: t.TempDir(), env: os.Environ(),
		args: []string{"-c", "alias.leave=!sleep 1000 >/dev/null 2>&1 & echo $! #", "leave"},
		stdout: func(r io.Reader) error {
			printed, err := io.ReadAll(r)
			if err == nil {
				_, err = fmt.Sscan(string(printed), &pid)
			}
			return err
		},
	}
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); running(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d still runs", pid)
		}
	}
}

// A process of git that computes for too long is ended, and the error says so.
func TestProcessorTime(t *testing.T) {
	c := command{
		dir: t.TempDir(), env: os.Environ(), cpu: time.Second,
		args: []string{"-c", "alias.spin=!while :; do :; done #", "spin"},
	}
	if err := c.run(t.Context()); !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), "fetch.max_cpu") {
		t.Error(err)
	}
}

// The error about a git that does not answer says so, and not that a process was killed.
func TestInstalledInTime(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := Installed(ctx)
	if !errors.Is(err, modproxy.ErrUnavailable) || !strings.Contains(err.Error(), "in time") || strings.Contains(err.Error(), "killed") {
		t.Error(err)
	}
}

// running reports whether a process runs. A zombie does not run.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return err == nil && !strings.HasPrefix(string(state), "Z")
}
