//go:build linux

package hostile_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The variables by which the outer process tells the inner ones what they are.
const (
	roleVariable    = "HOSTILE_ROLE"     // "world" or "jail"
	programVariable = "HOSTILE_MODPROXY" // the program under test; built if empty
	longVariable    = "HOSTILE_LONG"     // "1" for what takes minutes
)

// buildFlags build the program as the test itself is built.
var buildFlags []string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	switch os.Getenv(roleVariable) {
	case "jail":
		return enterJail(os.Args[1], os.Args[2], os.Args[3:])
	case "world":
		return inWorld(m)
	}
	flag.Parse()
	if flag.Lookup("test.list").Value.String() != "" || flag.Lookup("test.run").Value.String() == "^$" {
		return m.Run() // nothing that would need a world
	}
	if err := outside(); err != nil {
		if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() > 0 {
			return exit.ExitCode() // it has said why
		}
		fmt.Fprintln(os.Stderr, "hostile:", err)
		return 1
	}
	return 0
}

// long reports whether there is time for the cases in their full length. Where
// they are cut down, they say so.
func long() bool { return os.Getenv(longVariable) == "1" }

// errNoWorld tells that there can be no world on this machine.
var errNoWorld = errors.New("no namespaces")

// outside builds the program and runs the tests in a world.
func outside() error {
	dir, err := os.MkdirTemp("", "hostile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := os.Getenv(programVariable)
	if program == "" {
		program = filepath.Join(dir, "modproxy")
		args := append([]string{"build", "-o", program}, buildFlags...)
		build := exec.Command("go", append(args, "../../cmd/modproxy")...)
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	if program, err = filepath.Abs(program); err != nil {
		return err
	}
	err = inWorlds(dir, append(os.Environ(), roleVariable+"=world", programVariable+"="+program))
	if !errors.Is(err, errNoWorld) {
		return err
	}
	if os.Getenv("CI") == "true" || long() {
		return fmt.Errorf("%w: the rig needs root, or a machine that allows user namespaces", err)
	}
	fmt.Fprintf(os.Stderr, "hostile: NOT RUN, none of its cases: %v: the rig needs root, or a machine that allows user namespaces\n", err)
	return nil
}

// inWorld makes the world and runs the tests in it.
func inWorld(m *testing.M) int {
	if err := isolate(); err != nil {
		fmt.Fprintln(os.Stderr, "hostile: the world cannot be made:", err)
		return 1
	}
	if err := world.start(); err != nil {
		fmt.Fprintln(os.Stderr, "hostile: the world does not start:", err)
		return 1
	}
	code := m.Run()
	if !finishShared() {
		code = 1
	}
	for _, line := range cutDown() {
		fmt.Fprintf(os.Stderr, "hostile: cut down, \"make hostile\" runs it in full: %s\n", line)
	}
	return code
}
