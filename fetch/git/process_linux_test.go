package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
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

// running reports whether a process runs. A zombie does not run.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return err == nil && !strings.HasPrefix(string(state), "Z")
}
