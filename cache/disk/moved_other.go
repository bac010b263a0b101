//go:build !linux

package disk

import (
	"io/fs"
	"time"
)

// movedAt is when a file was last written, where the system does not say when it
// was moved.
func movedAt(info fs.FileInfo) time.Time { return info.ModTime() }
