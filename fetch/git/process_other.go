//go:build !unix

package git

import (
	"os/exec"
	"time"
)

// inGroup does nothing. There are no process groups: what git started ends when its pipes break.
func inGroup(*exec.Cmd) {}

func endGroup(*exec.Cmd) {}

// bounded returns git without a limit.
func bounded(_ time.Duration, args []string) (name string, with []string) { return "git", args }

func isOverCPU(*exec.ExitError, time.Duration) bool { return false }
