//go:build !unix

package git

import (
	"os/exec"
	"time"
)

// inGroup does nothing, because this system has no process groups. Processes that git started end when their pipes break.
func inGroup(*exec.Cmd) {}

func endGroup(*exec.Cmd) {}

// bounded returns git without a limit.
func bounded(_ time.Duration, args []string) (name string, with []string) { return "git", args }

func isOverCPU(*exec.ExitError, time.Duration) bool { return false }
