package disk

import (
	"fmt"

	"github.com/modproxy/modproxy"
)

// Room returns a [modproxy.NoSpace] if the file system of the directory is known to have fewer than n bytes free.
func (d *Directory) Room(n int64) error {
	if free, ok := freeOf(d.dir); ok && free < n {
		return &modproxy.NoSpace{Err: fmt.Errorf("%s are free on the disk, and %s are needed", modproxy.SizeText(free), modproxy.SizeText(n))}
	}
	return nil
}
