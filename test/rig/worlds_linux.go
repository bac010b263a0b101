package rig

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// A World runs the tests of a package in a process with its own namespaces, which it prepares before the tests.
type World struct {
	Name       string                 // of the package
	Namespaces uintptr                // that it needs
	Possible   func() error           // returns why the world cannot exist here; nil if it needs only the namespaces
	Flags      []string               // of "go build" for the program
	Enter      func() error           // called in the world
	Run        func(m *testing.M) int // runs the tests in the world
}

// Main runs the tests of a package in worlds, and returns its exit code. If a world is impossible here, Main prints one
// line, and fails if Required.
func (w *World) Main(m *testing.M) int {
	flag.Parse()
	if os.Getenv(RoleVariable) == "world" {
		if err := w.Enter(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: the world cannot be made: %v\n", w.Name, err)
			return 1
		}
		return w.Run(m)
	}
	if value("list") != "" || value("run") == "^$" {
		return m.Run() // no test needs a world
	}
	err := w.runAll()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode() // it has printed the reason
	case errors.Is(err, errNotHere) && !Required():
		fmt.Fprintf(os.Stderr, "%s: NOT RUN, none of its cases: %v\n", w.Name, err)
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", w.Name, err)
	return 1
}

// runAll builds the program and runs the tests in several worlds at a time, because most tests spend much of their time
// waiting. The worlds are independent of each other.
func (w *World) runAll() error {
	if w.Possible != nil {
		if err := w.Possible(); err != nil {
			return fmt.Errorf("%w: %w", errNotHere, err)
		}
	}
	dir, err := os.MkdirTemp("", w.Name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := Program(context.Background(), dir, w.Flags...)
	if err != nil {
		return err
	}
	self, err := w.self(dir)
	if err != nil {
		return err
	}
	shares, err := w.shareOut()
	if err != nil {
		return err
	}
	failed := make([]error, len(shares))
	var group sync.WaitGroup
	var printing sync.Mutex
	for i, args := range shares {
		temp := filepath.Join(dir, fmt.Sprint("world", i))
		if err := os.Mkdir(temp, 0o755); err != nil {
			return err
		}
		env := append(os.Environ(), RoleVariable+"=world", ProgramVariable+"="+program, "TMPDIR="+temp)
		group.Go(func() {
			if len(shares) == 1 {
				failed[i] = runProgram(self, w.Namespaces, args, env, os.Stdout)
				return
			}
			var said bytes.Buffer
			failed[i] = runProgram(self, w.Namespaces, args, env, &said)
			printing.Lock()
			defer printing.Unlock()
			os.Stdout.Write(said.Bytes())
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

// self returns the program that runs the tests in the worlds: this one or, if this one has the race detector, the same
// program without it, because the detector makes the tests several times as expensive. The program under test is built
// with Flags.
func (w *World) self(dir string) (string, error) {
	if !Race || testing.CoverMode() != "" {
		return this, nil
	}
	program := filepath.Join(dir, "world.test")
	cmd := exec.Command("go", "test", "-c", "-race=false", "-vet=off", "-o", program, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	return program, nil
}

func value(name string) string { return flag.Lookup("test." + name).Value.String() }

// shareOut returns the arguments for each world. All tests run in one world in the long form, and if they write a
// common file.
func (w *World) shareOut() ([][]string, error) {
	all := os.Args[1:]
	alone := Long() || strings.Contains(value("run"), "/")
	for _, name := range []string{"coverprofile", "cpuprofile", "memprofile", "blockprofile", "mutexprofile", "trace"} {
		alone = alone || value(name) != ""
	}
	if alone {
		return [][]string{all}, nil
	}
	list, err := exec.Command(this, "-test.list="+cmp.Or(value("run"), ".")).Output()
	if err != nil {
		return nil, fmt.Errorf("the list of tests: %w", err)
	}
	tests := strings.Fields(string(list))
	shares := make([][]string, max(1, min(len(tests), 2*runtime.NumCPU()+1)))
	for i := range shares {
		var own []string
		for n := i; n < len(tests); n += len(shares) {
			own = append(own, tests[n])
		}
		shares[i] = append(all[:len(all):len(all)], "-test.run=^("+strings.Join(own, "|")+")$")
		if i > 0 {
			shares[i] = append(shares[i], "-test.testlogfile=") // one world reports the dependencies of the result
		}
	}
	return shares, nil
}
