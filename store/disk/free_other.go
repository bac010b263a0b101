//go:build !linux && !darwin

package disk

// FileSystemOf returns the use of the file system of a directory. ok is false if it is unknown.
func FileSystemOf(string) (use FileSystem, ok bool) { return FileSystem{}, false }
