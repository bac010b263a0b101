//go:build !linux && !darwin

package durable

// NoInodes returns false, because the number of free inodes is unknown on this system.
func NoInodes(error) bool { return false }
