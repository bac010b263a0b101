package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// apartVariable is the environment variable that marks a process as separated, and has the processors of the proxy.
const apartVariable = "LOAD_APART"

// theirs are the processors of the proxy, if it has its own.
var theirs *unix.CPUSet

// theirOwn is the number of processors that only the proxy uses.
func theirOwn() int {
	if theirs == nil {
		return 0
	}
	return theirs.Count()
}

// apart runs this program again, once: on the first half of the processors, while the proxy gets the others, and for a soak by root with
// private mounts. On a machine with one processor, both share it.
func apart(s *settings) error {
	cpus := os.Getenv(apartVariable)
	if cpus != "" {
		return arrived(cpus)
	}
	var all, own unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	pin, mounts := s.pin && all.Count() > 1, slices.Contains(s.levels, "L8") && os.Geteuid() == 0
	if !pin && !mounts {
		return nil
	}
	runtime.LockOSThread() // this thread continues
	cpus = "all"
	if pin {
		cpus = ""
		for i := range 1024 {
			switch {
			case all.IsSet(i) && own.Count() < all.Count()/2:
				own.Set(i)
			case all.IsSet(i):
				cpus += fmt.Sprint(i, ",")
			}
		}
		if err := unix.SchedSetaffinity(0, &own); err != nil {
			return err
		}
	}
	if mounts {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("a mount namespace: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("a mount namespace: %w", err)
		}
	}
	return syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), apartVariable+"="+cpus))
}

// arrived reads the processors of the proxy from the variable.
func arrived(cpus string) error {
	if cpus == "all" {
		return nil
	}
	theirs = &unix.CPUSet{}
	for number := range strings.SplitSeq(strings.TrimSuffix(cpus, ","), ",") {
		var i int
		if _, err := fmt.Sscan(number, &i); err != nil {
			return fmt.Errorf("%s: %w", apartVariable, err)
		}
		theirs.Set(i)
	}
	return nil
}

// startApart starts a program on the processors that the generator does not use.
func startApart(cmd *exec.Cmd) error {
	if theirs == nil {
		return cmd.Start()
	}
	runtime.LockOSThread()
	var own unix.CPUSet
	if err := unix.SchedGetaffinity(0, &own); err != nil {
		return err
	}
	if err := unix.SchedSetaffinity(0, theirs); err != nil {
		return err
	}
	err := cmd.Start()
	if unix.SchedSetaffinity(0, &own) == nil {
		runtime.UnlockOSThread() // otherwise the thread ends with its goroutine
	}
	return err
}
