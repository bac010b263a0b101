package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

const isolatedVariable = "REAL_ISOLATED"

func isolated() bool { return os.Getenv(isolatedVariable) != "" }

// enterIsolation runs this program again in namespaces of its own, and is its exit
// code.
func enterIsolation(ctx context.Context) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), isolatedVariable+"=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM,
	}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	err = cmd.Run()
	if cmd.ProcessState == nil {
		return 1, fmt.Errorf("a network of its own, which needs root or user namespaces: %w", err)
	}
	if errors.As(err, new(*exec.ExitError)) {
		err = nil
	}
	return max(cmd.ProcessState.ExitCode(), 0), err
}

// dieTogether has a process that this one starts end with it.
func dieTogether() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// isolate gives the names to this machine, in this process's namespaces only.
func isolate(dir string, names ...string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	for file, text := range map[string]string{
		"/etc/hosts":       "127.0.0.1 localhost " + strings.Join(names, " ") + "\n",
		"/etc/resolv.conf": "nameserver 127.0.0.1\n",
	} {
		own := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(own, []byte(text), 0o644); err != nil {
			return err
		}
		if err := syscall.Mount(own, file, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return loopbackUp()
}

func loopbackUp() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	var request [40]byte // struct ifreq: a name, then flags
	copy(request[:], "lo")
	binary.NativeEndian.PutUint16(request[syscall.IFNAMSIZ:], syscall.IFF_UP)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return fmt.Errorf("lo: %w", errno)
	}
	return nil
}
