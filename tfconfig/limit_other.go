//go:build !linux

package tfconfig

const program = "" // os.Executable names it

// limit does nothing: the bounds of the stack and of the time hold everywhere.
func limit() error { return nil }
