//go:build unix

package datadir

import (
	"net"
	"syscall"
)

// listenPrivately creates a socket that has mode 0600 at every moment.
func listenPrivately(path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return net.Listen("unix", path)
}
