package main

import (
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// family returns a process and its children.
func family(pid int) []int { return append([]int{pid}, rig.Children(pid)...) }

// cpu is the processor time of processes so far.
func cpu(pids ...int) (sum time.Duration) {
	for _, pid := range pids {
		sum += rig.Ticks(pid, 2)
	}
	return sum
}

// peak is the largest memory of a process since rig.ResetPeak, in bytes.
func peak(pid int) int64 { return rig.InStatus(pid, "VmHWM") }

// private is the memory of a process without mapped files, which the system can reclaim, in bytes.
func private(pid int) int64 { return rig.InStatus(pid, "RssAnon") }
