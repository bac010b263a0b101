package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// family returns a process and those that it started.
func family(pid int) []int { return append([]int{pid}, children(pid)...) }

// children are the processes that the threads of a process have started.
func children(pid int) (all []int) {
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

// cpu is the time that processes have computed so far.
func cpu(pids ...int) (sum time.Duration) {
	for _, pid := range pids {
		sum += ticks(pid, 2)
	}
	return sum
}

// ticks is the time that a process has computed so far, which Linux counts in hundredths of a second: the sum of two
// counters, or with four of them also that of the processes which it has started and waited for. It is 0 where it cannot
// be known.
func ticks(pid, counters int) (sum time.Duration) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The name, in parentheses, may have spaces in it.
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

// resetPeak begins the measurement of a process's peak memory anew.
func resetPeak(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) // else the peak is that of its life
}

// peak is the most memory that a process has had since resetPeak, in bytes.
func peak(pid int) int64 { return inStatus(pid, "VmHWM:") }

// private is the memory of a process without what is mapped of files, which the system has back when it wants, in bytes.
func private(pid int) int64 { return inStatus(pid, "RssAnon:") }

// inStatus is a number of bytes that Linux tells of a process.
func inStatus(pid int, name string) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}
