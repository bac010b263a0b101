package rig

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Sets of namespaces that a process may have for itself.
const (
	OwnMounts    = unix.CLONE_NEWNS
	OwnNetwork   = unix.CLONE_NEWNET
	OwnProcesses = unix.CLONE_NEWPID | unix.CLONE_NEWIPC
)

// errNotHere is the error if the system lacks a requirement.
var errNotHere = errors.New("not possible here")

// this is the program of this process.
const this = "/proc/self/exe"

// RunAgain runs this program again, as runProgram does.
func RunAgain(namespaces uintptr, args, env []string, out io.Writer) error {
	return runProgram(this, namespaces, args, env, out)
}

// runProgram runs a program in its own namespaces, as root or as root of a user namespace. Its mounts and network end
// with it, and with OwnProcesses also all processes that it has started. It ends when this process ends.
func runProgram(program string, namespaces uintptr, args, env []string, out io.Writer) error {
	runtime.LockOSThread() // the death signal belongs to the thread
	defer runtime.UnlockOSThread()
	var failed []error
	for _, attr := range []*syscall.SysProcAttr{
		{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL},
		{
			Cloneflags: namespaces | unix.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		},
	} {
		self := exec.Command(program, args...)
		self.Env, self.Stdin, self.Stdout, self.Stderr, self.SysProcAttr = env, os.Stdin, out, out, attr
		if err := self.Start(); err != nil {
			failed = append(failed, err)
			continue
		}
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
		defer signal.Stop(signals)
		go func() {
			for s := range signals {
				self.Process.Signal(s)
			}
		}()
		return self.Wait()
	}
	return fmt.Errorf("%w: namespaces need root, or a machine that allows user namespaces: %w", errNotHere, errors.Join(failed...))
}

// EnterMounts hides mounts of this process from the rest of the machine, and makes /proc show the processes of its own
// namespace.
func EnterMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	return nil
}

// ReplaceFile replaces the content of a file in this mount namespace only. If the file does not exist, ReplaceFile does
// nothing.
func ReplaceFile(name, text string) error {
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	own := filepath.Join(os.TempDir(), filepath.Base(name))
	if err := os.WriteFile(own, []byte(text), 0o644); err != nil {
		return err
	}
	if err := unix.Mount(own, name, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// LoopbackUp enables the loopback interface of a new network namespace.
func LoopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	return nil
}
