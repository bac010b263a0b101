package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/modproxy/modproxy/internal/hint"
)

// socketName is the socket in the data directory on which the process that serves answers the directory's owner.
const socketName = "modproxy.sock"

// Listen listens on the socket in the data directory, to which only the directory's owner can connect. It replaces a socket
// that another process has left behind. On a read-only file system, the listener and the error are both nil.
func (c *Claim) Listen() (net.Listener, error) {
	if c.readOnly {
		return nil, nil
	}
	name := filepath.Join(c.dir, socketName)
	switch info, err := os.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s: it is not a socket", name)
	default:
		if err := os.Remove(name); err != nil {
			return nil, err
		}
	}
	path, done, err := socketPath(c.dir)
	if err != nil {
		return nil, err
	}
	defer done()
	return listenPrivately(path) // on Close, the listener removes the socket only if path still leads to it
}

// A Dialer connects to the process that serves from a data directory. It ignores the network and the address, and has the
// signature of [http.Transport]'s DialContext.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Connect returns a Dialer for the process that serves from the data directory, or a claim if no process does. One of the Dialer, the
// Claim and the error is not nil. If another command works in the directory, or a process that will serve does not listen yet, Connect
// waits for it up to three seconds; then the error is [ErrClaimed]. The directory must exist.
func Connect(ctx context.Context, dir string) (Dialer, *Claim, error) {
	if err := Check(dir); err != nil {
		return nil, nil, err
	}
	var dialer Dialer
	claim, err := claimWhile(ctx, dir, func(waited time.Duration) bool {
		dialer = Serving(ctx, dir)
		return dialer == nil && waited < verbTime
	})
	if dialer != nil {
		return dialer, nil, nil
	}
	if errors.Is(err, ErrClaimed) {
		err = hint.With(err, "modproxy is starting, or another verb is at work: try again", "a proxy that could not create its socket says so in its log")
	}
	return nil, claim, err
}

// Serving returns a Dialer for the process that serves from the data directory, or nil if no process does. It neither claims the
// directory nor waits.
func Serving(ctx context.Context, dir string) Dialer {
	conn, err := dialSocket(ctx, dir)
	if err != nil {
		return nil
	}
	_ = conn.Close() // it has shown that a process listens
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return dialSocket(ctx, dir) }
}

func dialSocket(ctx context.Context, dir string) (net.Conn, error) {
	path, done, err := socketPath(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	var d net.Dialer
	return d.DialContext(ctx, "unix", path)
}

// socketPath returns a path of the socket that is short enough for a socket address. For a longer data directory, the path leads
// through a link in a temporary directory. The caller must call done, which removes the link and the temporary directory.
func socketPath(dir string) (path string, done func(), err error) {
	const longest = 103 // bytes that every system accepts as a socket's address
	if path = filepath.Join(dir, socketName); len(path) <= longest {
		return path, func() {}, nil
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, err
	}
	temp, err := os.MkdirTemp("", "modproxy-") // mode 0700
	if err != nil {
		return "", nil, err
	}
	link := filepath.Join(temp, "data")
	if err := os.Symlink(dir, link); err != nil {
		return "", nil, errors.Join(err, os.Remove(temp))
	}
	return filepath.Join(link, socketName), func() { os.Remove(link); os.Remove(temp) }, nil
}
