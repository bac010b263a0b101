package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// A Process is a server that this process has started.
type Process struct {
	*exec.Cmd
	log    string
	told   bool // it was told to end
	exited chan struct{}
	err    error // of its end
}

// Start starts a server. It appends standard error to the file log, and writes standard output to the file with the
// suffix ".out" instead of ".log".
func Start(cmd *exec.Cmd, log string) (*Process, error) {
	return StartBy((*exec.Cmd).Start, cmd, log)
}

// StartBy is like Start, with a function that calls cmd.Start.
func StartBy(start func(*exec.Cmd) error, cmd *exec.Cmd, log string) (*Process, error) {
	out, err := os.Create(output(log))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	errs, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer errs.Close()
	cmd.Stdout, cmd.Stderr = out, errs
	if err := start(cmd); err != nil {
		return nil, err
	}
	p := &Process{Cmd: cmd, log: log, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

func output(log string) string { return strings.TrimSuffix(log, ".log") + ".out" }

// ID returns the id of the process.
func (p *Process) ID() int { return p.Process.Pid }

// Exited returns a channel that is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Log returns the standard error of the process, and of earlier processes with the same log.
func (p *Process) Log() []byte {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return text
}

// Until waits until ready returns true. It fails if the process ends before, or after a timeout.
func (p *Process) Until(ctx context.Context, ready func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	why := errors.New("it takes too long")
	for patience := time.After(2 * time.Minute); !ready(); {
		select {
		case <-tick.C:
			continue
		case <-p.exited:
			why = fmt.Errorf("it has ended: %v", p.err)
		case <-patience:
		case <-ctx.Done():
			why = context.Cause(ctx)
		}
		return fmt.Errorf("%s is not ready: %w\n%s", p.Path, why, p.Log())
	}
	return nil
}

// listens matches the URL in the output of modproxy when it is ready.
var listens = regexp.MustCompile(`(?m)listens on (https?://[0-9A-Za-z.:\[\]-]+)\s`)

// URL waits until modproxy is ready and returns its URL.
func (p *Process) URL(ctx context.Context) (url string, err error) {
	err = p.Until(ctx, func() bool {
		out, _ := os.ReadFile(output(p.log)) // empty until it is ready
		if found := listens.FindSubmatch(out); found != nil {
			url = string(found[1])
		}
		return url != ""
	})
	return url, err
}

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) error {
	p.told = p.told || s == syscall.SIGTERM
	return p.Process.Signal(s)
}

// Stop sends SIGTERM, unless Signal has done so, and waits for the end of the process.
func (p *Process) Stop() error {
	var err error
	if !p.told {
		err = p.Signal(syscall.SIGTERM)
	}
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	return errors.Join(err, p.Wait(2*time.Minute))
}

// Wait waits for the end of the process, and returns an error unless its exit code is 0. It kills a process that takes
// longer than patience.
func (p *Process) Wait(patience time.Duration) error {
	select {
	case <-p.exited:
		return p.err
	case <-time.After(patience):
		p.Kill()
		return fmt.Errorf("%s did not end within %v\n%s", p.Path, patience, p.Log())
	}
}

// Kill kills the process, with its process group if it has its own.
func (p *Process) Kill() {
	if attr := p.SysProcAttr; attr != nil && attr.Setpgid {
		_ = syscall.Kill(-p.ID(), syscall.SIGKILL) // only others of the group may be left
	}
	_ = p.Process.Kill() // it may have ended
	<-p.exited
}
