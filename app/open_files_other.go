//go:build !unix

package app

// openFiles returns zero: the maximum number of open files is not known.
func openFiles() uint64 { return 0 }
