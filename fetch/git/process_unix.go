//go:build unix && !linux

package git

import (
	"os/exec"
	"syscall"
)

func inGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}

// endGroup does not kill processes that outlive git: without waitid, another process may have the group's number by
// then.
func endGroup(*exec.Cmd) {}
