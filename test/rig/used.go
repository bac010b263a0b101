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

// Children returns the processes that the threads of a process have started.
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

// Ticks returns the time that a process has computed so far, which Linux counts in hundredths of a second: the sum of two
// counters, or with four of them also that of the processes which it has started and waited for. It is 0 where it cannot
// be known.
func Ticks(pid, counters int) (sum time.Duration) {
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

// InStatus returns a number of bytes that Linux tells of a process, such as VmRSS, its memory, or VmHWM, the most that it had.
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

// ResetPeak has Linux begin anew to measure the most memory that a process has. Where it cannot, that is of its whole life.
func ResetPeak(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}
