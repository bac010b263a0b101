package modproxy

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Fault returns the error for a panic whose value was recovered: [ErrUnavailable]. It has the type of the value, and
// where the panic was, but not the value, which may have secrets and what strangers sent. It must be called by the
// deferred function.
func Fault(recovered any) error {
	return fmt.Errorf("%w: a bug in modproxy, please report it: %T at %s", ErrUnavailable, recovered, panicked())
}

// panicked returns the file and line of the panic that is being recovered.
func panicked() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs[:])])
	found := false
	for {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			found = true
		case found && !strings.HasPrefix(frame.Function, "runtime."):
			return fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}
