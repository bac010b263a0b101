package main

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// pinned is the variable by which a process knows that it has its processors.
const pinned = "LOAD_PINNED"

// theirs are the processors of the proxy, if it has its own.
var theirs *unix.CPUSet

// pin gives the generator the first half of the processors for itself, by running this program again, and the proxy the
// others. Where there is only one, both share it.
func pin() error {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || all.Count() < 2 && os.Getenv(pinned) == "" {
		return err
	}
	if list := os.Getenv(pinned); list != "" {
		theirs = &unix.CPUSet{}
		for i, c := range list {
			if c == '1' {
				theirs.Set(i)
			}
		}
		return nil
	}
	var own unix.CPUSet
	list, half := "", all.Count()/2
	for i := 0; own.Count()+countOf(list) < all.Count(); i++ {
		c := "0"
		if all.IsSet(i) && own.Count() < half {
			own.Set(i)
		} else if all.IsSet(i) {
			c = "1"
		}
		list += c
	}
	runtime.LockOSThread() // it is the one that goes on
	if err := unix.SchedSetaffinity(0, &own); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), pinned+"="+list))
}

func countOf(list string) (n int) {
	for _, c := range list {
		if c == '1' {
			n++
		}
	}
	return n
}

// startApart starts a program on the processors that the generator does not have.
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
		runtime.UnlockOSThread() // else the thread ends with its goroutine
	}
	return err
}
