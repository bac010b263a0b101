package tfconfig

import (
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
)

const program = "/proc/self/exe" // also after an update has replaced the file

// limit bounds the resources of this process.
func limit() error {
	// If the machine or the container runs out of memory, the kernel ends this process and not its parent.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	// A Go program reserves much address space at the start.
	space := uint64(2 << 30 * memoryCost)
	var pages uint64
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if _, err := fmt.Sscan(string(text), &pages); err == nil {
			space = pages*uint64(os.Getpagesize()) + maxMemory<<20*memoryCost
		}
	}
	debug.SetMemoryLimit(maxMemory << 20 * 3 / 4)
	for _, l := range []struct {
		what int
		most uint64
	}{{syscall.RLIMIT_AS, space}, {syscall.RLIMIT_CORE, 0}, {syscall.RLIMIT_FSIZE, 0}, {syscall.RLIMIT_CPU, maxCPU}} {
		if err := syscall.Setrlimit(l.what, &syscall.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			return fmt.Errorf("limit %d: %w", l.what, err)
		}
	}
	return nil
}
