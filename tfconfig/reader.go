package tfconfig

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/slots"
	"github.com/modproxy/modproxy/store"
)

// A Reader reads configurations, each in a child process. It is safe for concurrent use. [NewReader] makes one; the zero Reader waits for
// ever.
type Reader struct {
	Store *store.Store // stores results for packages; nil: nothing is stored
	// MaxStored bounds the bytes of stored results. They may exceed it by an eighth for a while. The oldest are removed first. Zero:
	// no bound.
	MaxStored int64

	reading    slots.Semaphore // for children that do not describe a module
	describing slots.Semaphore // for children that describe a module
	added      atomic.Int64    // records since the start
	grown      atomic.Int64    // bytes of records since the last sweep
	sweeping   sync.Mutex      // held by Sweep
}

const (
	children  = 2                           // at a time; as many more describe modules
	maxWait   = timeCost * 30 * time.Second // for one child
	maxStderr = 4 << 10                     // bytes of the child's standard error
)

// NewReader returns a Reader that stores results in s, at most maxStored bytes of them. See the fields of [Reader].
func NewReader(s *store.Store, maxStored int64) *Reader {
	return &Reader{Store: s, MaxStored: maxStored, reading: slots.NewSemaphore(children), describing: slots.NewSemaphore(children)}
}

// Read returns the calls and requirements of a directory of a tree.
//
// Errors: [modproxy.ErrInvalid] if the tree cannot be read, [modproxy.ErrUnavailable] if reading it failed for another reason; those
// of the tree; that of the context.
func (r *Reader) Read(ctx context.Context, t Tree, o Options) (*Configuration, error) {
	o.Dir = path.Clean(o.Dir)
	if t.digest.IsZero() { // results for directories are not stored
		return r.one(ctx, t, o)
	}
	given, passed := o.Vars, o.Passed
	o.Vars, o.Passed = nil, nil
	c, err := r.one(ctx, t, o)
	if err != nil || len(given) == 0 {
		return c, err
	}
	// With a value of one variable, others may change a source or a version that was not known without it.
	o.Vars = map[string]Arg{}
	for before := -1; len(o.Vars) > before; {
		before = len(o.Vars)
		for name, arg := range given {
			if passed[name] || slices.Contains(c.Variables, name) {
				o.Vars[name] = Arg{Value: arg.Value, Dynamic: arg.Dynamic}
			}
		}
		if len(o.Vars) > before {
			if c, err = r.one(ctx, t, o); err != nil {
				return nil, err
			}
		}
	}
	// Variables that do not change a source or a version here were left out, so that a package is not read again for each call of it.
	// Arguments that depend on them are unknown.
	for _, call := range c.Calls {
		for name, arg := range call.Args {
			for _, of := range arg.Inputs {
				_, isGiven := given[of]
				if _, counts := o.Vars[of]; isGiven && !counts {
					call.Args[name] = Arg{Dynamic: fmt.Sprintf("refers to var.%.80s, which is not evaluated here", of), Inputs: arg.Inputs, Skipped: true}
				}
			}
		}
	}
	return c, nil
}

// read reads a tree in a child.
func (r *Reader) read(ctx context.Context, t Tree, o Options) (*Configuration, error) {
	give, err := r.reading.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	if o.CallsOnly {
		calls, err := t.calls(ctx, o)
		switch {
		case err != nil:
			return nil, err
		case !calls:
			return &Configuration{}, nil
		}
	}
	answer, err := ask(ctx, t, request{Edition: edition, Options: o})
	switch {
	case err != nil:
		return nil, err
	case answer.Configuration == nil:
		return nil, errSilent
	}
	answer.Configuration.CPU = answer.cpu
	return answer.Configuration, nil
}

var errSilent = fmt.Errorf("%w: the process that reads the configuration returned nothing", modproxy.ErrUnavailable)

// ask sends a request for a tree to a child and returns its reply.
func ask(ctx context.Context, t Tree, q request) (*reply, error) {
	late := fmt.Errorf("%w: reading its configuration takes more than %v", modproxy.ErrUnavailable, maxWait)
	within, cancel := context.WithTimeoutCause(ctx, maxWait, late)
	defer cancel()
	line, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	wanted := func(name string) bool { return isConfiguration(name) || t.root && isRoots(name) }
	switch {
	case q.CLI:
		wanted = func(name string) bool { return name == cliName }
	case q.Describe:
		wanted = func(name string) bool { return describes(q.Dir, name) }
	}
	text, cpu, err := run(within, func(w io.Writer) error {
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
		return t.send(within, w, wanted)
	})
	if err != nil {
		return nil, cmp.Or(context.Cause(within), err)
	}
	var answer reply
	err = json.Unmarshal(text, &answer)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the process that reads the configuration: %w", modproxy.ErrUnavailable, err)
	case answer.Edition != edition:
		return nil, fmt.Errorf("%w: the program on disk is another version: restart modproxy", modproxy.ErrUnavailable)
	case answer.Error != "":
		return nil, &unreadable{answer.Error}
	}
	answer.cpu = cpu
	return &answer, nil
}

// unreadable is the reason why a tree cannot be read. It is permanent.
type unreadable struct{ text string }

func (e *unreadable) Error() string { return e.text }
func (e *unreadable) Unwrap() error { return modproxy.ErrInvalid }

// run runs a child with the input that send writes. It returns the output of the child and its processor time.
func run(ctx context.Context, send func(io.Writer) error) (printed []byte, cpu time.Duration, err error) {
	if isChild() {
		return nil, 0, errors.New("a child cannot start another one")
	}
	name := program
	if name == "" {
		if name, err = os.Executable(); err != nil {
			return nil, 0, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
		}
	}
	cmd := exec.CommandContext(ctx, name, childVerb)
	stdout, stderr := &head{max: maxReply + 1}, &head{max: maxStderr}
	cmd.Env, cmd.Dir, cmd.WaitDelay = []string{}, string(filepath.Separator), time.Second
	cmd.Stdout, cmd.Stderr = stdout, stderr
	pipe, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: the process that reads configurations: %w", modproxy.ErrUnavailable, err)
	}
	in := &input{w: pipe}
	sent := errors.Join(send(in), pipe.Close())
	if sent != nil && in.err == nil {
		_ = cmd.Process.Kill()
	}
	err = cmd.Wait()
	switch {
	case sent != nil && in.err == nil:
		return nil, 0, sent
	case err != nil:
		return nil, 0, death(cmd.ProcessState, stderr.String(), err)
	case stdout.Len() > maxReply:
		return nil, 0, fmt.Errorf("%w: the process that reads configurations printed too much", modproxy.ErrUnavailable)
	}
	return stdout.Bytes(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// death returns the reason why a child died.
func death(state *os.ProcessState, stderr string, err error) error {
	line, _, _ := strings.Cut(stderr, "\n")
	switch {
	case strings.Contains(stderr, "stack exceeds"):
		return &unreadable{invalid("its configuration is nested too deeply").Error()}
	case strings.Contains(stderr, "out of memory"), strings.Contains(stderr, "cannot allocate memory"):
		return &unreadable{invalid("reading its configuration takes more than %d MiB of memory", maxMemory).Error()}
	case state != nil && state.UserTime()+state.SystemTime() >= (maxCPU-1)*time.Second:
		return &unreadable{invalid("reading its configuration takes more than %d seconds", maxCPU).Error()}
	}
	return fmt.Errorf("%w: the process that reads configurations died: %w: %.200q", modproxy.ErrUnavailable, err, line)
}

// input is the standard input of a child.
type input struct {
	w   io.Writer
	err error // writing failed; the error of the child says why
}

func (i *input) Write(p []byte) (n int, err error) {
	n, i.err = i.w.Write(p)
	return n, i.err
}

// head keeps the first max bytes that are written to it.
type head struct {
	bytes.Buffer
	max int
}

func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), h.max-h.Len())])
	return len(p), nil
}
