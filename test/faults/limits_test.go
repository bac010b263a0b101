//go:build linux

package faults_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// If a limit of the system is reached under load, some clients are told to retry, no client gets a wrong answer, modproxy keeps running,
// and works normally after the load.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(*testing.T, *exec.Cmd) error
	}{
		{"64 open files", func(_ *testing.T, cmd *exec.Cmd) error { return startAfter(cmd, "ulimit -n 64") }},
		{"64 threads", func(t *testing.T, cmd *exec.Cmd) error {
			return startAfter(cmd, "echo $$ > "+newGroup(t, "pids", "pids.max", "pids.max", 64))
		}},
		{"192 MiB of memory", func(t *testing.T, cmd *exec.Cmd) error {
			return startAfter(cmd, "echo $$ > "+newGroup(t, "memory", "memory.limit_in_bytes", "memory.max", 192<<20))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			underLimit(t, func(cmd *exec.Cmd) error { return c.begin(t, cmd) })
		})
	}
}

func underLimit(t *testing.T, begin func(*exec.Cmd) error) {
	const clients = 96
	t.Setenv("MODPROXY_CACHE_MEMORY", "64KiB") // packages are read from the disk
	r := newProxy(t, with{})
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: 10 * time.Second}
	r.starter = begin
	r.start()
	r.ready()
	r.fill(20)
	end := r.load(clients)
	time.Sleep(time.Duration(rounds(1, 60)) * time.Second)
	end()
	r.client.CloseIdleConnections()
	started := time.Now()
	r.ready() // the same process; otherwise the port would be closed
	r.fill(3)
	t.Logf("%d packages; ready, and at work, %v after the load; answers by status: %v", r.acked(), time.Since(started), r.counts())
	for status, n := range r.counts() {
		if status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Errorf("%d were answered %d", n, status)
		}
	}
	r.stop()
	r.starter = (*exec.Cmd).Start
	r.afterwards()
	if aside, err := os.ReadDir(filepath.Join(r.data, "quarantine")); len(aside) > 0 || err != nil {
		t.Errorf("set aside, though nothing was damaged: %v, %v", aside, err)
	}
}

// newGroup creates a control group with one limit, which has different names in the two versions of control groups. It returns the file
// that takes processes.
func newGroup(t *testing.T, controller, first, second string, limit int) string {
	t.Helper()
	const groups = "/sys/fs/cgroup"
	name := fmt.Sprintf("modproxy-faults-%x-%s", rand.Uint64(), controller)
	dir, file := filepath.Join(groups, controller, name), first
	if _, err := os.Stat(filepath.Join(groups, "cgroup.subtree_control")); err == nil {
		dir, file = filepath.Join(groups, name), second
		if err := os.WriteFile(filepath.Join(groups, "cgroup.subtree_control"), []byte("+"+controller), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 100 { // killed processes leave the group a moment later
			if os.Remove(dir) == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("%s stays", dir)
	})
	if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(limit)), 0); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "cgroup.procs")
}

// startAfter starts a program after a command of a shell.
func startAfter(cmd *exec.Cmd, before string) error {
	shell, err := exec.LookPath("sh")
	if err != nil {
		return err
	}
	cmd.Args = append([]string{"sh", "-c", before + ` && exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = shell
	return cmd.Start()
}
