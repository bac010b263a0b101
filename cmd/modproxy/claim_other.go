//go:build !unix || solaris || aix

package main

import (
	"errors"
	"os"
)

const noWait, noFollow = 0, 0

func links(os.FileInfo) uint64 { return 1 }

// lockFile refuses: two processes that change one data directory would damage it.
func lockFile(*os.File, bool) (bool, error) { return false, errors.ErrUnsupported }
