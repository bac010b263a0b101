package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// command is one run of git.
type command struct {
	dir    string
	env    []string // all of it
	args   []string // nothing secret: every user of the machine can read them
	stdin  string
	stdout func(io.Reader) error // reads what git prints; nil if nothing matters
}

// exitError tells that git ended with another status than 0.
type exitError struct {
	code   int
	stderr string // its beginning, as git wrote it
}

func (e *exitError) Error() string { return fmt.Sprintf("git ended with status %d", e.code) }

const (
	maxStderr = 8 << 10         // bytes that are kept
	waitDelay = 5 * time.Second // for pipes, once git has ended
)

// run runs c to its end, and to the end of every process that it started. The error is the cause of ctx when that
// ended, what c.stdout returned, or an *exitError, in this order.
func (c command) run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	git, err := exec.LookPath("git")
	if err != nil {
		return fmt.Errorf("%w: git is not installed: %w", modproxy.ErrUnavailable, err)
	}
	cmd := exec.CommandContext(running, git, c.args...)
	inGroup(cmd)
	cmd.Dir, cmd.Env, cmd.WaitDelay = c.dir, c.env, waitDelay
	stderr := &head{max: maxStderr}
	cmd.Stderr = stderr
	if c.stdin != "" {
		cmd.Stdin = strings.NewReader(c.stdin)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return errUnavailable(err)
	}
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return errUnavailable(err)
	}
	read := make(chan error, 1)
	go func() {
		err := c.take(stdout)
		if err != nil {
			stop()
		}
		_, _ = io.Copy(io.Discard, stdout) // what is not read must not hold git up
		read <- err
	}()
	endGroup(cmd)
	readErr := <-read
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case readErr != nil:
		return readErr
	case errors.As(err, &exit):
		return &exitError{code: exit.ExitCode(), stderr: stderr.String()}
	case err != nil:
		return fmt.Errorf("%w: git: %w", modproxy.ErrUnavailable, err)
	}
	return nil
}

// take lets c.stdout read what git prints. That may panic, about what a stranger wrote.
func (c command) take(stdout io.Reader) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = modproxy.Fault(p)
		}
	}()
	if c.stdout == nil {
		return nil
	}
	return c.stdout(stdout)
}

// head keeps the first max bytes that are written to it.
type head struct {
	strings.Builder
	max int
}

func (h *head) Write(p []byte) (int, error) {
	h.Builder.Write(p[:min(len(p), h.max-h.Len())])
	return len(p), nil
}
