package tfconfig

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/modproxy/modproxy"
)

// childVerb is the hidden command that runs a child process.
const childVerb = "read-configuration"

// edition changes whenever something is read in another way. It is also that of the protocol between parent and child.
const edition = 10

// Bounds of a child.
const (
	maxStack  = 64 << 20 // bytes: a file may be nested some thousand times, and real ones are twenty times
	maxMemory = 512      // MiB, on Linux
	maxCPU    = 10       // seconds
	maxReply  = 16 << 20 // bytes
)

// request is the first line of what a child is given. The files follow.
type request struct {
	Edition  int  `json:"edition"`
	Describe bool `json:"describe,omitempty"` // the module in Options.Dir, and nothing else
	Options
}

// reply is what a child answers, unless it dies.
type reply struct {
	Edition       int            `json:"edition"`
	Configuration *Configuration `json:"configuration,omitempty"`
	Description   *Description   `json:"description,omitempty"`
	Error         string         `json:"error,omitempty"` // why the tree cannot be read

	cpu time.Duration // that the child has used
}

func isChild() bool { return len(os.Args) == 2 && os.Args[1] == childVerb }

// Child does the work of a child, and ends the process, if this is a child of a [Reader]. A program with a Reader calls
// it before anything else.
//
// It ends the process by [syscall.Exit]: under the race detector [os.Exit] waits a second for what else may run.
func Child() {
	if !isChild() {
		return
	}
	debug.SetMaxStack(maxStack)
	debug.SetTraceback("none")
	err := limit()
	if err == nil {
		err = work(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1)
	}
	syscall.Exit(0)
}

// work answers one request.
func work(r io.Reader, w io.Writer) error {
	in := bufio.NewReader(r)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var asked request
	answer := reply{Edition: edition}
	if err := json.Unmarshal(line, &asked); err != nil {
		return err
	}
	if asked.Edition == edition {
		files, err := receive(in)
		if err != nil {
			return err
		}
		if asked.Describe {
			answer.Description, err = describe(files, asked.Dir)
		} else {
			answer.Configuration, err = parse(files, asked.Options)
		}
		switch {
		case errors.Is(err, modproxy.ErrInvalid):
			answer.Error = err.Error()
		case err != nil:
			return err
		}
	}
	most := maxReply
	if asked.Describe {
		most = maxDescription
	}
	text, err := json.Marshal(answer)
	if err == nil && len(text) > most {
		answer = reply{Edition: edition, Error: invalid("more than %d MiB to say", most>>20).Error()}
		text, err = json.Marshal(answer)
	}
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}
