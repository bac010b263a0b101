package main

import (
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// family returns a process and those that it started.
func family(pid int) []int { return append([]int{pid}, rig.Children(pid)...) }

// cpu is the time that processes have computed so far.
func cpu(pids ...int) (sum time.Duration) {
	for _, pid := range pids {
		sum += rig.Ticks(pid, 2)
	}
	return sum
}

// peak is the most memory that a process has had since rig.ResetPeak, in bytes.
func peak(pid int) int64 { return rig.InStatus(pid, "VmHWM") }

// private is the memory of a process without what is mapped of files, which the system has back when it wants, in bytes.
func private(pid int) int64 { return rig.InStatus(pid, "RssAnon") }
