package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/modproxy/modproxy/internal/hint"
)

// socketName is the socket in the data directory on which the process that serves answers the directory's owner.
const socketName = "modproxy.sock"

// Listen listens on the socket in the data directory, to which only the directory's owner can connect. One that
// a process has left behind is replaced. The listener is nil where the file system is read-only.
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
	return listenPrivately(path) // when it is closed, it removes what is still found by that path
}

// Reach returns a client of the process that serves from the data directory, or a claim of it if none does.
func Reach(ctx context.Context, dir string) (*Client, *Claim, error) {
	if err := HaveData(dir); err != nil {
		return nil, nil, err
	}
	var api *Client
	claim, err := claimUnless(ctx, dir, func() bool {
		conn, err := dialSocket(ctx, dir)
		if err != nil {
			return false
		}
		_ = conn.Close() // it has shown that a process listens
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return dialSocket(ctx, dir) }
		// Every proxy answers on its own machine by this name, on which nothing that is dialled depends.
		api = newClient("http://localhost", "", &http.Transport{DialContext: dial, DisableKeepAlives: true})
		return true
	})
	if api != nil {
		return api, nil, nil
	}
	if errors.Is(err, ErrClaimed) {
		err = hint.With(err, "it is starting, or another verb is at work: try again", "a proxy that could not make its socket says so in its log")
	}
	return nil, claim, err
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

// socketPath returns a path of the socket that is short enough to be its address, by a link in a directory of
// its own if the data directory has a longer one. done removes that.
func socketPath(dir string) (path string, done func(), err error) {
	const longest = 103 // bytes that every system takes as a socket's address
	if path = filepath.Join(dir, socketName); len(path) <= longest {
		return path, func() {}, nil
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, err
	}
	temp, err := os.MkdirTemp("", "modproxy-") // 0700
	if err != nil {
		return "", nil, err
	}
	link := filepath.Join(temp, "data")
	if err := os.Symlink(dir, link); err != nil {
		return "", nil, errors.Join(err, os.Remove(temp))
	}
	return filepath.Join(link, socketName), func() { os.Remove(link); os.Remove(temp) }, nil
}
