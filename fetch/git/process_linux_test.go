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

// What git has started, and does not wait for, ends with it.
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

// A process that git starts, and that goes on computing, ends, and that is said.
func TestProcessorTime(t *testing.T) {
	c := command{
		dir: t.TempDir(), env: os.Environ(), cpu: time.Second,
		args: []string{"-c", "alias.spin=!while :; do :; done #", "spin"},
	}
	if err := c.run(t.Context()); !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), "fetch.max_cpu") {
		t.Error(err)
	}
}

// running tells whether a process has not ended, though perhaps nobody has waited for it.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return err == nil && !strings.HasPrefix(string(state), "Z")
}
