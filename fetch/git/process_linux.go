package git

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// inGroup puts c into its own process group, and makes c.Cancel kill the group: a signal to git alone does not reach
// the programs that it starts.
func inGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}

// endGroup waits until c has ended, and kills the remaining processes of its group. Before c.Wait no other process can
// have the group's number.
func endGroup(c *exec.Cmd) {
	for unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // fails if no process is left
}
