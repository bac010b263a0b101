package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A process is a server that this program started.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	logs   string // what it wrote to standard error; standard output is beside it
}

// start starts a server whose output goes to the files logs and logs+".out".
func start(cmd *exec.Cmd, logs string) (*process, error) {
	out, err := os.Create(logs + ".out")
	if err != nil {
		return nil, err
	}
	defer out.Close()
	errs, err := os.Create(logs)
	if err != nil {
		return nil, err
	}
	defer errs.Close()
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, exited: make(chan struct{}), logs: logs}
	go func() {
		cmd.Wait() // how a server ends, and why, is in its log
		close(p.exited)
	}()
	return p, nil
}

// until waits until ready says so, as long as the server runs.
func (p *process) until(ctx context.Context, ready func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for patience := time.After(20 * time.Second); !ready(); {
		select {
		case <-tick.C:
			continue
		case <-p.exited:
		case <-patience:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		text, _ := os.ReadFile(p.logs)
		return fmt.Errorf("%s is not ready:\n%s", p.cmd.Path, text)
	}
	return nil
}

// stop ends the server, by force if it takes long.
func (p *process) stop() error {
	err := p.cmd.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		err = errors.Join(err, p.cmd.Process.Kill())
		<-p.exited
	}
	return err
}

// family is the process and those that it started.
func (p *process) family() []int {
	pid := p.cmd.Process.Pid
	all := []int{pid}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, field := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(field); err == nil {
			all = append(all, child)
		}
	}
	return all
}

// cpu is the time that processes have computed so far, which Linux counts in
// hundredths of a second; 0 where it cannot be known.
func cpu(pids ...int) (sum time.Duration) {
	for _, pid := range pids {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		// The name, in parentheses, may have spaces in it.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 13 {
			continue
		}
		for _, field := range fields[11:13] {
			ticks, _ := strconv.Atoi(string(field))
			sum += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return sum
}

// resetPeak begins the measurement of a process's peak memory anew.
func resetPeak(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) // else the peak is that of its life
}

// peak is the most memory that a process has had since resetPeak, in bytes.
func peak(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}
