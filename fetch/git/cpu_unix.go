//go:build unix

package git

import (
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// bounded returns the program and the arguments that run git with a limit on the processor time of each of its processes, in
// whole seconds. A shell sets the limit before git starts other processes. The hard limit stays higher: a process that exceeds
// the soft limit ends with SIGXCPU, which [isOverCPU] recognizes. If the shell cannot set it, a lower one is in force already.
func bounded(most time.Duration, args []string) (name string, with []string) {
	git, err := exec.LookPath("git")
	if err != nil {
		return "git", args
	}
	seconds := strconv.Itoa(int((most + time.Second - 1) / time.Second))
	return "/bin/sh", append([]string{"-c", `ulimit -S -t "$0" 2>/dev/null; exec "$@"`, seconds, git}, args...)
}

// isOverCPU reports whether git, or a process that git started, ended because of the limit. The kernel enforces the limit by
// timer ticks, and may count more time than exit has. If git reports another status for its children, the time decides.
func isOverCPU(exit *exec.ExitError, limit time.Duration) bool {
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && (status.Signaled() && status.Signal() == syscall.SIGXCPU || status.ExitStatus() == 128+int(syscall.SIGXCPU)) ||
		exit.UserTime()+exit.SystemTime() >= limit-limit/10
}
