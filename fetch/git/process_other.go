//go:build !unix

package git

import "os/exec"

// inGroup does nothing. There are no process groups: what git started ends when its pipes break.
func inGroup(*exec.Cmd) {}

func endGroup(*exec.Cmd) {}
