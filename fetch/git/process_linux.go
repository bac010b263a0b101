package git

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// inGroup makes c the first of a process group of its own: git starts programs that start programs, and a signal to
// git reaches none of them.
func inGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}

// endGroup waits until c has ended and kills what it left behind. c.Wait has not been called yet, so the number of
// the group cannot have been given away.
func endGroup(c *exec.Cmd) {
	for unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // no such group: nothing was left
}
