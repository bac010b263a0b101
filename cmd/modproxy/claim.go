package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/hint"
)

// serverName is a file in the data directory. Who works in the directory has it
// locked: "modproxy serve", which writes into it where it is, or a verb.
const serverName = "server.json"

// server is what serverName says, while modproxy serves. Token lets in whoever
// can read the file, which is the owner of the data directory; it is made anew at
// every start.
type server struct {
	PID   int    `json:"pid"`
	URL   string `json:"url"`
	Token string `json:"token"`
}

// claim is a data directory to work in, while no other process does. It ends with
// the process, however that ends.
//
// A directory on a file system that is read-only can be claimed by many, who read
// only, and it is not written there where they are.
type claim struct {
	file     *os.File // nil if the directory is read-only, and nobody ever had it
	token    string
	readOnly bool
}

// errClaimed: another process works in the data directory.
var errClaimed = errors.New("another modproxy has the data directory")

// claimData claims the data directory, and makes it where there is none. Its
// error is errClaimed when another process has it.
func claimData(dir string) (*claim, error) {
	if err := makeData(dir); err != nil {
		return nil, err
	}
	c := &claim{token: rand.Text()}
	name := filepath.Join(dir, serverName)
	f, err := openPlain(name, os.O_RDWR|os.O_CREATE)
	if errors.Is(err, syscall.EROFS) {
		c.readOnly = true
		if f, err = openPlain(name, os.O_RDONLY); errors.Is(err, fs.ErrNotExist) {
			return c, nil
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, hint.With(err, "run modproxy as the owner of the data directory, or --data takes another")
	}
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && links(info) > 1 {
		return nil, hint.With(errors.Join(fmt.Errorf("%s: it has other names, and would be written under them, too", name), f.Close()),
			"remove it while no modproxy works in the directory")
	}
	free, err := lockFile(f, c.readOnly)
	if err == nil && !free {
		err = errClaimed
	}
	if err == nil && !c.readOnly {
		err = errors.Join(say(f, nil), f.Chmod(0o600))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), f.Close())
	}
	c.file = f
	return c, nil
}

// openPlain opens a file that is one, and no link to another: who owns the directory
// need not be trusted by who runs this.
func openPlain(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: durable.ErrNotRegular}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// makeDir makes a directory and the ones above it, durably: what is kept in them
// is gone with them.
func makeDir(name string) error {
	err := os.Mkdir(name, 0o700)
	above := filepath.Dir(name)
	if errors.Is(err, fs.ErrNotExist) && above != name {
		if err := makeDir(above); err != nil {
			return err
		}
		err = os.Mkdir(name, 0o700) // once: what is above may be a link to nothing
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	f, err := os.Open(above)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// makeData makes the data directory where there is none. Its error says what is
// there instead.
func makeData(dir string) error {
	err := makeDir(dir)
	if err == nil {
		var info fs.FileInfo
		switch info, err = os.Stat(dir); {
		case errors.Is(err, fs.ErrNotExist):
			err = errors.New("it is a link to nothing")
		case err == nil && !info.IsDir():
			err = errors.New("it is not a directory")
		}
	}
	if err != nil {
		return hint.With(fmt.Errorf("data directory %s: %w", dir, err), "--data takes another directory")
	}
	return refuseLinks(dir)
}

// claimToServe is claimData for "modproxy serve", which waits a little for a verb
// to end.
func claimToServe(ctx context.Context, dir string) (*claim, error) {
	for end := time.Now().Add(claimWait); ; {
		c, err := claimData(dir)
		if err == nil || !errors.Is(err, errClaimed) {
			return c, err
		}
		s, unknown := readServer(dir)
		switch {
		case unknown == nil:
			err = fmt.Errorf("%w: process %d, at %s", err, s.PID, s.URL)
		case time.Now().Before(end):
			select {
			case <-time.After(claimPause):
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return nil, hint.With(err, "end that one, or use another directory (--data)")
	}
}

// How long a process that works in the data directory may take to say where it
// is, or to be done.
const (
	claimWait  = 3 * time.Second
	claimPause = 20 * time.Millisecond
)

// announce says where this process serves the API.
func (c *claim) announce(url string) error {
	if c.readOnly {
		return nil
	}
	text, err := json.Marshal(server{os.Getpid(), url, c.token})
	if err != nil {
		return err
	}
	return say(c.file, text)
}

// sayingSize is the size of the file, whatever is said in it, in bytes: once it has
// a block of the disk that is written to in place, also where no other is free.
const sayingSize = 4096

// say writes text into the file of a claim, in place of what was there. Where there
// is no room it says nothing: a proxy that nobody finds serves all the same.
func say(f *os.File, text []byte) error {
	block := bytes.Repeat([]byte{' '}, sayingSize)
	copy(block, text)
	block[sayingSize-1] = '\n'
	_, err := f.WriteAt(block, 0)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return f.Truncate(0)
	}
	return err
}

// admits reports whether r shows the token.
func (c *claim) admits(r *http.Request) bool {
	shown := r.Header.Get("Authorization")
	return subtle.ConstantTimeCompare([]byte(shown), []byte("Bearer "+c.token)) == 1
}

// close lets others claim the directory.
func (c *claim) close() error {
	switch {
	case c.file == nil:
		return nil
	case c.readOnly:
		return c.file.Close()
	}
	return errors.Join(say(c.file, nil), c.file.Close())
}

// readServer is what the process that has claimed the directory says. It is not
// in order while that writes it, or has nothing to say.
func readServer(dir string) (server, error) {
	f, err := openPlain(filepath.Join(dir, serverName), os.O_RDONLY)
	if err != nil {
		return server{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, sayingSize))
	if err != nil {
		return server{}, err
	}
	var s server
	if err := json.Unmarshal(text, &s); err != nil {
		return server{}, err
	}
	return s, nil
}
