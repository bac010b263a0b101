package git

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// inGroup puts c into a process group of its own: a signal to git reaches none of the programs that it starts.
func inGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}

// endGroup waits until c has ended and kills what it left behind. Before c.Wait the group's number is still its own.
func endGroup(c *exec.Cmd) {
	for unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // no such group: nothing was left
}
