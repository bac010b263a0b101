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

// edition changes whenever the result of reading changes. It is also the version of the protocol between parent and child.
const edition = 10

// Bounds of a child.
const (
	maxStack  = 64 << 20 // bytes; a file may nest some thousand levels, and real files nest about twenty
	maxMemory = 512      // MiB, on Linux
	maxCPU    = 10       // seconds
	maxReply  = 16 << 20 // bytes
)

// request is the first line of the input of a child. The files follow.
type request struct {
	Edition  int  `json:"edition"`
	Describe bool `json:"describe,omitempty"` // describe the module in Options.Dir, and do nothing else
	CLI      bool `json:"cli,omitempty"`      // read a CLI configuration, and do nothing else
	Options
}

// reply is the output of a child.
type reply struct {
	Edition       int            `json:"edition"`
	Configuration *Configuration `json:"configuration,omitempty"`
	Description   *Description   `json:"description,omitempty"`
	CLI           *CLI           `json:"cli,omitempty"`
	Error         string         `json:"error,omitempty"` // the reason why the tree cannot be read

	cpu time.Duration // processor time of the child
}

func isChild() bool { return len(os.Args) == 2 && os.Args[1] == childVerb }

// Child runs the work of a child and ends the process, if this process is a child of a [Reader]. A program with a Reader calls it
// before anything else.
//
// It ends the process by [syscall.Exit], because [os.Exit] waits a second under the race detector.
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
		switch {
		case asked.Describe:
			answer.Description, err = describe(files, asked.Dir)
		case asked.CLI:
			answer.CLI, err = parseCLI(files[cliName])
		default:
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
		answer = reply{Edition: edition, Error: invalid("the result is larger than %d MiB", most>>20).Error()}
		text, err = json.Marshal(answer)
	}
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}
