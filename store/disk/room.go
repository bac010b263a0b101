package disk

import (
	"fmt"

	"github.com/modproxy/modproxy"
)

// FileSystem is the use of a file system, in bytes.
type FileSystem struct {
	Free int64 // available to this process
	Used int64
}

// Full returns how full the file system is, in percent, as df prints it.
func (f FileSystem) Full() int {
	if f.Used+f.Free <= 0 {
		return 0
	}
	return int((100*f.Used + f.Used + f.Free - 1) / (f.Used + f.Free))
}

// FileSystem returns the use of the file system of the directory. ok is false if it is unknown.
func (d *Directory) FileSystem() (use FileSystem, ok bool) { return FileSystemOf(d.dir) }

// Room returns a [modproxy.NoSpace] if the file system of the directory is known to have fewer than n bytes free.
func (d *Directory) Room(n int64) error {
	if use, ok := d.FileSystem(); ok && use.Free < n {
		return &modproxy.NoSpace{Err: fmt.Errorf("%s are free on the disk, and %s are needed", modproxy.SizeText(use.Free), modproxy.SizeText(n))}
	}
	return nil
}
