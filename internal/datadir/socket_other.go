//go:build !unix

package datadir

import (
	"errors"
	"net"
)

func listenPrivately(string) (net.Listener, error) { return nil, errors.ErrUnsupported }
