//go:build !unix

package git

import (
	"os/exec"
	"time"
)

// inGroup does nothing. There are no process groups: what git started ends when its pipes break.
func inGroup(*exec.Cmd) {}

func endGroup(*exec.Cmd) {}

// boundCPU does nothing: only Linux bounds another process.
func boundCPU(*exec.Cmd, time.Duration) {}
