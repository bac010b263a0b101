//go:build linux

package faults_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// strace is the command that changes system calls as inject says, without output.
func strace(calls, inject string) []string {
	return []string{"strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace=" + calls, "-e", "signal=none", "-e", "inject=" + calls + ":" + inject}
}

// injected starts modproxy under strace. modproxy is the child of this process.
func injected(calls, inject string) func(*exec.Cmd) error {
	return func(cmd *exec.Cmd) error {
		path, err := exec.LookPath("strace")
		cmd.Path, cmd.Args = path, append(append(strace(calls, inject), "-D"), cmd.Args...)
		return errors.Join(err, cmd.Start())
	}
}

// inject applies inject to the running modproxy until end is called.
func (r *proxy) inject(calls, inject string) (end func()) {
	r.t.Helper()
	pid := strconv.Itoa(r.server.ID())
	args := append(strace(calls, inject), "-p", pid)
	cmd := exec.Command(args[0], args[1:]...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	for started := time.Now(); ; time.Sleep(time.Millisecond) {
		status, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil || bytes.Contains(status, []byte("State:\tZ")) || !bytes.Contains(status, []byte("TracerPid:\t0\n")) {
			break // it was killed, or is traced already
		}
		if time.Since(started) > time.Minute {
			r.t.Fatalf("strace does nothing: %s", &complaint)
		}
	}
	return func() {
		cmd.Process.Signal(syscall.SIGTERM) // strace detaches from modproxy, if that has not ended
		cmd.Wait()
	}
}

// swept are the system calls by which modproxy changes and opens files, and the number of calls that the long form tries. strace counts
// the calls of each thread.
var swept = []struct {
	name, calls string
	starts      int // during a start
	most        int // under load
}{
	{"fsync", "fsync", 100, 200}, {"fdatasync", "fdatasync", 100, 200}, {"renameat", "renameat,renameat2", 100, 200},
	{"openat", "openat", 100, 200}, {"write", "write", 100, 200}, {"pwrite64", "pwrite64", 100, 200},
	{"unlinkat", "unlinkat", 100, 200}, {"mkdirat", "mkdirat", 100, 60}, {"ftruncate", "ftruncate", 10, 1},
}

// few is the number of calls that the short form tries.
const few = 3

// modproxy is killed at its Nth system call of a kind during a start, for each N, with and without a data directory. The next start
// continues.
func TestSweepOfStarts(t *testing.T) {
	for _, s := range swept[:rounds(few, len(swept))] {
		t.Run(s.name, func(t *testing.T) {
			r := newProxy(t, with{})
			first := r.sweepStarts(s.calls, s.starts, true)
			r.start()
			r.ready()
			r.fill(3)
			r.kill()
			later := r.sweepStarts(s.calls, s.starts, false)
			r.afterwards()
			if len(first) == 0 {
				t.Errorf("it was never killed")
			}
			t.Logf("killed in a first start at %v, in a later one at %v", first, later)
		})
	}
}

// sweepStarts kills modproxy at its Nth call, for each N, until the start succeeds.
func (r *proxy) sweepStarts(calls string, most int, anew bool) (killed []int) {
	r.t.Helper()
	defer func() { r.starter = (*exec.Cmd).Start }()
	for _, n := range numbers(most, 1, 10) {
		r.starter = injected(calls, fmt.Sprintf("signal=KILL:when=%d", n))
		r.start()
		if !r.ended(r.isReady) {
			r.kill()
			break
		}
		killed = append(killed, n)
		r.starter = (*exec.Cmd).Start
		r.start()
		r.ready()
		r.kill()
		if anew {
			if err := os.RemoveAll(r.data); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	return killed
}

// modproxy is killed while it rebuilds the index. After another rebuild it has everything.
func TestSweepOfRebuild(t *testing.T) {
	d := newDirectory(t, 6)
	for _, calls := range []string{"linkat", "renameat,renameat2", "unlinkat", "pwrite64", "fsync", "fdatasync"}[:rounds(2, 6)] {
		var killed []int
		for _, n := range numbers(30, 1) {
			copyAll(t, d.whole, d.data)
			d.put("index.db", random("index", 4000))
			if !d.killedAt(calls, n, "rebuild") {
				break
			}
			killed = append(killed, n)
			what := fmt.Sprintf("killed at %s number %d", calls, n)
			d.output("rebuild")
			if refusal := d.startOrRefuse("--offline"); refusal != "" {
				t.Fatalf("%s: %s", what, refusal)
			}
			d.complete(what)
		}
		if len(killed) == 0 {
			t.Errorf("it was never killed at %s", calls)
		}
		t.Logf("killed at %s %v", calls, killed)
	}
}

// killedAt runs a verb, and kills it at its nth system call of a kind. It returns false if the verb ended before.
func (r *proxy) killedAt(calls string, n int, args ...string) bool {
	r.t.Helper()
	cmd := r.command(args...)
	if err := injected(calls, fmt.Sprintf("signal=KILL:when=%d", n))(cmd); err != nil {
		r.t.Fatal(err)
	}
	err := cmd.Wait()
	if err == nil {
		return false
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		r.t.Fatalf("modproxy %s: %v", args, err)
	}
	return true
}

// modproxy is killed under load. All packages that clients received are stored.
func TestSweep(t *testing.T) {
	kills := 0
	for _, s := range swept[:rounds(few, len(swept))] {
		if s.most > 0 {
			t.Run(s.name, func(t *testing.T) { kills += sweep(t, s.calls, s.most) })
		}
	}
	t.Logf("%d kills", kills)
}

func sweep(t *testing.T, calls string, most int) int {
	r := newProxy(t, with{})
	endLoad, endDrift := r.load(rounds(4, 16)), r.loadDrift()
	var killed, missed []int
	for _, n := range numbers(most, 10) {
		r.start()
		r.ready()
		for before := r.acked(); r.acked() < before+2; time.Sleep(time.Millisecond) {
			if r.ended(func() bool { return true }) {
				t.Fatal("it was not to be killed yet")
			}
		}
		end := r.inject(calls, fmt.Sprintf("signal=KILL:when=%d", n))
		started := time.Now()
		if r.ended(func() bool { return time.Since(started) > patience }) {
			killed = append(killed, n)
		} else {
			missed = append(missed, n)
			r.kill()
		}
		end()
		if err := r.check(); err != nil {
			t.Fatalf("killed at %s number %d: %v", calls, n, err)
		}
	}
	endLoad()
	endDrift()
	r.afterwards()
	if len(killed) == 0 {
		t.Errorf("it was never killed")
	}
	t.Logf("killed at %v, and not within %v at %v; %d packages and %d drifts acknowledged and there",
		killed, patience, missed, r.acked(), len(r.drifts))
	return len(killed)
}

// patience is the time in which the load must cause a system call. The short form tries only calls that occur on any machine.
var patience = map[bool]time.Duration{true: 5 * time.Second, false: time.Minute}[rig.Long()]

// numbers are the numbers of the calls to try: all at first, then fewer, up to most; or few.
func numbers(most int, some ...int) (list []int) {
	if !rig.Long() {
		for _, n := range some {
			list = append(list, min(n, most))
		}
		return slices.Compact(list)
	}
	for n := 1; n <= most; n += 1 + n/10 {
		list = append(list, n)
	}
	return list
}

// ended reports whether modproxy was killed before a condition became true.
func (r *proxy) ended(before func() bool) bool {
	r.t.Helper()
	for !before() {
		select {
		case <-r.server.Exited():
		case <-time.After(2 * time.Millisecond):
			continue
		}
		if status := r.server.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
			r.t.Fatalf("modproxy ended by itself: %v", r.server.ProcessState)
		}
		r.server = nil
		return true
	}
	return false
}
