package rig

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Children returns the child processes of a process.
func Children(pid int) (all []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// Ticks returns the processor time of a process so far, in multiples of 10 ms, as Linux counts it. It adds the first
// counters of user and system time: two for the process itself, four to include its children that have ended. It
// returns 0 if the time is unknown.
func Ticks(pid, counters int) (sum time.Duration) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The name, in parentheses, may contain spaces.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 11+counters {
		return 0
	}
	for _, field := range fields[11 : 11+counters] {
		n, _ := strconv.Atoi(string(field))
		sum += time.Duration(n) * 10 * time.Millisecond
	}
	return sum
}

// InStatus returns a number of bytes from /proc/PID/status, such as VmRSS, the current memory, or VmHWM, its maximum.
func InStatus(pid int, name string) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}

// ResetPeak makes Linux start a new measurement of the maximum memory of a process. If that is impossible, the maximum
// is that of its whole life.
func ResetPeak(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}
