//go:build linux

package faults_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

const (
	roleVariable    = "FAULTS_ROLE"     // "rig" in the inner process
	programVariable = "FAULTS_MODPROXY" // the program under test
	dirVariable     = "FAULTS_DIR"      // where everything is
	longVariable    = "FAULTS_LONG"     // "1" for hundreds of rounds
)

// long reports whether there is time for the rounds in their full number.
func long() bool { return os.Getenv(longVariable) == "1" }

func rounds(short, full int) int {
	if long() {
		return full
	}
	return short
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if os.Getenv(roleVariable) == "rig" {
		if err := errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
			syscall.Mount("proc", "/proc", "proc", 0, "")); err != nil {
			fmt.Fprintln(os.Stderr, "faults: mounts:", err)
			return 1
		}
		if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil { // of the processes in here
			fmt.Fprintln(os.Stderr, "faults: /proc:", err)
			return 1
		}
		return m.Run()
	}
	if flag.Lookup("test.list").Value.String() != "" || flag.Lookup("test.run").Value.String() == "^$" {
		return m.Run()
	}
	if why := possible(); why != nil {
		if os.Getenv("CI") == "true" || long() {
			fmt.Fprintln(os.Stderr, "faults:", why)
			return 1
		}
		fmt.Fprintf(os.Stderr, "faults: NOT RUN, none of its cases: %v\n", why)
		return 0
	}
	err := outside()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode() // it has said why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		return 1
	}
	return 0
}

// possible is why the rig cannot run here.
func possible() error {
	if os.Geteuid() != 0 {
		return errors.New("the rig mounts file systems, and needs root for that")
	}
	for _, tool := range []string{"mount", "umount", "mkfs.ext4", "strace"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("the rig needs mount, umount, mkfs.ext4 and strace: %w", err)
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return fmt.Errorf("the rig needs loop devices: %w", err)
	}
	return nil
}

// outside builds the program and runs this one again in namespaces of its own:
// when it ends, its mounts and whatever it has started end with it.
func outside() error {
	dir, err := os.MkdirTemp("", "faults-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := os.Getenv(programVariable)
	if program == "" {
		program = filepath.Join(dir, "modproxy")
		if err := build(program, nil); err != nil {
			return err
		}
	}
	if program, err = filepath.Abs(program); err != nil {
		return err
	}
	runtime.LockOSThread() // the death signal is that of the thread
	self := exec.Command("/proc/self/exe", os.Args[1:]...)
	self.Env = append(os.Environ(), roleVariable+"=rig", programVariable+"="+program, dirVariable+"="+dir)
	self.Stdin, self.Stdout, self.Stderr = os.Stdin, os.Stdout, os.Stderr
	self.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	return self.Run()
}

// build builds the program with the texts in changes, by their file, replaced:
// a mutant. Each is there exactly once, or nothing is built.
func build(program string, changes map[string][2]string) error {
	dir := filepath.Dir(program)
	overlay := map[string]string{}
	for name, change := range changes {
		source, err := filepath.Abs(filepath.Join("..", "..", name))
		if err != nil {
			return err
		}
		text, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		if bytes.Count(text, []byte(change[0])) != 1 {
			return fmt.Errorf("%s has not got %q once: the mutant is out of date", name, change[0])
		}
		mutated := filepath.Join(dir, "mutant-"+filepath.Base(name))
		overlay[source] = mutated
		if err := os.WriteFile(mutated, bytes.Replace(text, []byte(change[0]), []byte(change[1]), 1), 0o600); err != nil {
			return err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-overlay", file, "-o", program, "../../cmd/modproxy")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}
