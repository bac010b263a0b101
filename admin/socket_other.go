//go:build !unix

package admin

import (
	"errors"
	"net"
)

func listenPrivately(string) (net.Listener, error) { return nil, errors.ErrUnsupported }
