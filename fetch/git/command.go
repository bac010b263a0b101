package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// command is one run of git.
type command struct {
	dir    string
	env    []string              // the complete environment
	args   []string              // without secrets: every user of the machine can read them
	stdin  io.Reader             // nil for an empty input; closed after git has ended, if it is an io.Closer
	stdout func(io.Reader) error // reads the output of git; nil discards it
	cpu    time.Duration         // bound of the processor time of each process; 0 for none
}

// exitError is the error of a git that ended with a status other than 0.
type exitError struct {
	code   int
	stderr string // the beginning of git's stderr, unchanged
}

func (e *exitError) Error() string { return fmt.Sprintf("git ended with status %d", e.code) }

const (
	maxStderr = 8 << 10         // bytes of stderr that are stored
	waitDelay = 5 * time.Second // for pipes, after git has ended

	versionTime = 5 * time.Second // for "git version"
)

// run runs c until it and every process that it started have ended. The error is, in this order: the cause of ctx if it
// ended, the error of c.stdout, [modproxy.ErrInvalid] for too much processor time, or an *exitError.
func (c command) run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	name, args := "git", c.args
	if c.cpu > 0 {
		name, args = bounded(c.cpu, args)
	}
	cmd := exec.CommandContext(running, name, args...)
	inGroup(cmd)
	cmd.Dir, cmd.Env, cmd.WaitDelay = c.dir, c.env, waitDelay
	stderr := &head{max: maxStderr}
	cmd.Stdin, cmd.Stderr = c.stdin, stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if errors.Is(err, exec.ErrNotFound) {
		err = errors.New("git is not installed where modproxy runs (operator: install it, or put it in PATH)")
	}
	if err != nil {
		return cmp.Or(context.Cause(ctx), errUnavailable(err))
	}
	read := make(chan error, 1)
	go func() {
		err := c.take(stdout)
		if err != nil {
			stop()
		}
		_, _ = io.Copy(io.Discard, stdout) // unread output must not block git
		read <- err
	}()
	endGroup(cmd)
	if closer, ok := c.stdin.(io.Closer); ok {
		closer.Close()
	}
	readErr := <-read
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case readErr != nil:
		return readErr
	case errors.As(err, &exit) && c.cpu > 0 && isOverCPU(exit, c.cpu):
		return invalid("git needs more than %v of processor time for it (operator: fetch.max_cpu)", c.cpu)
	case errors.As(err, &exit):
		return &exitError{code: exit.ExitCode(), stderr: stderr.String()}
	case err != nil:
		return fmt.Errorf("%w: git: %w", modproxy.ErrUnavailable, err)
	}
	return nil
}

// take lets c.stdout read git's output. c.stdout may panic, because the content is untrusted.
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

// output runs c, which makes no connection, and returns its output. Output of more than limit bytes is an error.
func (c command) output(ctx context.Context, limit int64) (string, error) {
	var printed []byte
	c.stdout = func(stdout io.Reader) (err error) {
		if printed, err = io.ReadAll(io.LimitReader(stdout, limit+1)); int64(len(printed)) > limit {
			return invalid("git %s prints more than %d bytes", c.args[0], limit)
		}
		return errUnavailable(err)
	}
	err := broken(c.run(ctx))
	return string(printed), err
}

// head stores the first max bytes that are written to it.
type head struct {
	strings.Builder
	max int
}

func (h *head) Write(p []byte) (int, error) {
	h.Builder.Write(p[:min(len(p), h.max-h.Len())])
	return len(p), nil
}

// ErrSlow is in the error of [Installed] if git has not answered in time: git is in PATH, and its version is not known.
var ErrSlow = fmt.Errorf("git has not answered within %v", versionTime)

// Installed returns a [modproxy.ErrUnavailable] unless git is in PATH and new enough. If git has not answered within 5 seconds, or
// before the deadline of ctx, the error is also [ErrSlow].
func Installed(ctx context.Context) error {
	if _, err := exec.LookPath("git"); errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: git is not in PATH", modproxy.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	text, err := command{env: []string{"PATH=" + os.Getenv("PATH")}, args: []string{"version"}}.output(ctx, 1<<10)
	var major, minor int
	if err == nil {
		_, err = fmt.Sscanf(text, "git version %d.%d", &major, &minor)
		err = errUnavailable(err)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, ErrSlow)
	case err != nil:
		return fmt.Errorf("git does not say its version: %w", err)
	case major < 2 || major == 2 && minor < 31:
		return fmt.Errorf("%w: git is version %d.%d: want 2.31 or newer", modproxy.ErrUnavailable, major, minor)
	}
	return nil
}
