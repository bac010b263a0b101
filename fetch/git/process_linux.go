package git

import (
	"os/exec"
	"syscall"
	"time"

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

// boundCPU ends c, and each process that it starts from now on, when that has used so much processor time.
func boundCPU(c *exec.Cmd, most time.Duration) {
	seconds := uint64((most + time.Second - 1) / time.Second)
	_ = unix.Prlimit(c.Process.Pid, unix.RLIMIT_CPU, &unix.Rlimit{Cur: seconds, Max: seconds + 1}, nil) // it may have ended
}
