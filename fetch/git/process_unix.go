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

// endGroup leaves alone what outlives git: without waitid nothing tells whether the group's number is still its own.
func endGroup(*exec.Cmd) {}
