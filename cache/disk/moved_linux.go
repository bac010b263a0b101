package disk

import (
	"io/fs"
	"syscall"
	"time"
)

// movedAt is when a file was moved to where it is, or changed in another way.
func movedAt(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(int64(st.Ctim.Sec), int64(st.Ctim.Nsec))
	}
	return info.ModTime()
}
