//go:build !linux && !darwin

package durable

// NoInodes reports false: the number of free inodes is not known.
func NoInodes(error) bool { return false }
