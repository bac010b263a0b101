//go:build !unix || solaris || aix

package durable

import (
	"io/fs"
	"os"
)

// NoFollow is a flag for opening files. It has no effect on this system.
const NoFollow = 0

const (
	noWait      = 0
	canFlushDir = false
)

// Links returns 1, because the number of names is unknown on this system.
func Links(fs.FileInfo) uint64 { return 1 }

// InheritOwner does nothing on this system.
func InheritOwner(*os.File) error { return nil }

// InheritOwners does nothing on this system.
func InheritOwners(string) error { return nil }
