package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/filelock"
	"github.com/modproxy/modproxy/internal/hint"
)

// lockName is the file in the data directory that its process has locked, and says of itself in for messages.
const lockName = "lock"

// ErrClaimed is the error when another process works in the data directory.
var ErrClaimed = errors.New("another modproxy has the data directory")

// A Claim is a data directory in which no other process works. It ends with the process, however that ends. A
// directory on a file system that is read-only can be claimed by many processes, which only read.
type Claim struct {
	dir      string
	file     *os.File // nil if the file system is read-only and has no lock file
	readOnly bool
}

// ClaimData claims the data directory, and makes it if there is none.
func ClaimData(dir string) (*Claim, error) {
	if err := MakeData(dir); err != nil {
		return nil, err
	}
	c := &Claim{dir: dir}
	name := filepath.Join(dir, lockName)
	f, err := durable.OpenRegular(name, os.O_RDWR|os.O_CREATE|durable.NoFollow)
	if errors.Is(err, syscall.EROFS) {
		c.readOnly = true
		if f, err = durable.OpenRegular(name, os.O_RDONLY|durable.NoFollow); errors.Is(err, fs.ErrNotExist) {
			return c, nil
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, hint.With(err, "run modproxy as the owner of the data directory, or --data takes another")
	}
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && durable.Links(info) > 1 {
		return nil, hint.With(errors.Join(fmt.Errorf("%s: it has other names, and would be written under them, too", name), f.Close()),
			"remove it while no modproxy works in the directory")
	}
	lock := filelock.TryLock
	if c.readOnly {
		lock = filelock.TryRLock
	}
	if err = lock(f); errors.Is(err, filelock.ErrLocked) {
		err = fmt.Errorf("%s: %w", dir, ErrClaimed)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c.file = f
	c.say("") // a process that was killed has left its own
	return c, nil
}

// ClaimToServe claims the data directory for "modproxy serve". It waits a little for a verb to end.
func ClaimToServe(ctx context.Context, dir string) (*Claim, error) {
	owner := ""
	c, err := claimUnless(ctx, dir, func() bool {
		owner = ownerOf(dir)
		return owner != ""
	})
	if !errors.Is(err, ErrClaimed) {
		return c, err
	}
	if owner != "" {
		err = fmt.Errorf("%w: %s", err, owner)
	}
	return nil, hint.With(err, "end that one, or use another directory (--data)")
}

// claimUnless claims the data directory. It waits a little for another process to be done, or for stop to be true.
// The error is then [ErrClaimed].
func claimUnless(ctx context.Context, dir string, stop func() bool) (*Claim, error) {
	for end := time.Now().Add(3 * time.Second); ; {
		c, err := ClaimData(dir)
		if !errors.Is(err, ErrClaimed) || stop() || time.Now().After(end) {
			return c, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Announce notes where this process serves, for the message of [ClaimToServe].
func (c *Claim) Announce(url string) { c.say(fmt.Sprintf("process %d, at %s\n", os.Getpid(), url)) }

// say replaces the text of the lock file, if it can be written: only messages need it.
func (c *Claim) say(text string) {
	_ = c.file.Truncate(0)
	_, _ = c.file.WriteAt([]byte(text), 0)
}

// ownerOf returns what the process that has the data directory says of itself, or an empty string.
func ownerOf(dir string) string {
	f, err := durable.OpenRegular(filepath.Join(dir, lockName), os.O_RDONLY|durable.NoFollow)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 1024)) // what there is
	return strings.TrimSpace(string(text))
}

// Close lets other processes claim the directory.
func (c *Claim) Close() error {
	if c.file == nil {
		return nil
	}
	c.say("")
	return c.file.Close()
}

// DataHint says what to do where a directory is missing.
const DataHint = "--data names the data directory"

// HaveData returns nil if there is a data directory. It makes none: the name may be a mistake.
func HaveData(dir string) error {
	if err := HaveDir(dir, "data directory"); err != nil {
		return err
	}
	return refuseLinks(dir)
}

// HaveDir returns nil if dir is a directory. what is its name in the message.
func HaveDir(dir, what string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("there is no %s at %s", what, dir)
	case err == nil && !info.IsDir():
		err = fmt.Errorf("%s is not a directory", dir)
	case err == nil:
		return nil
	}
	return hint.With(err, DataHint)
}

// MakeData makes the data directory if there is none.
func MakeData(dir string) error {
	if err := (durable.Disk{}).MkdirAll(dir); err != nil {
		return hint.With(fmt.Errorf("data directory %s: %w", dir, err), "--data takes another directory")
	}
	return refuseLinks(dir)
}

// refuseLinks returns an error if a directory or file of modproxy's in the data directory is a symbolic link: the
// owner of the data directory, which may be one itself, need not be trusted by the user that runs this.
func refuseLinks(dir string) error {
	names := []string{
		"quarantine", "tmp", "scratch", "blobs", "blobs/v1", "blobs/v1/sha256",
		"index.db", "layout.json", "ledger", "auth", lockName, socketName,
	}
	for _, pattern := range []string{"ledger/*", "auth/*"} {
		found, _ := fs.Glob(os.DirFS(dir), pattern) // without what cannot be read, of which its reader says so
		names = append(names, found...)
	}
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return hint.With(fmt.Errorf("%s: it is a symbolic link, and modproxy follows none in its data directory", path),
				"put there what it leads to; the data directory itself may be a link")
		}
	}
	return nil
}
