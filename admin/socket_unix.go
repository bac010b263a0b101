//go:build unix

package admin

import (
	"net"
	"syscall"
)

// listenPrivately makes a socket that has mode 0600 from the first moment.
func listenPrivately(path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return net.Listen("unix", path)
}
