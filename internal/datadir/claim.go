// Package datadir claims a data directory for one process, and connects others to that process.
//
// "modproxy serve" calls [ClaimToServe], listens on the socket with [Claim.Listen] and, when it is ready, calls
// [Claim.Announce]. When it is told to end, it calls [Claim.End], so that the next process waits for the directory. Other commands
// of modproxy call [Connect], which returns a way to the process that serves, or else a claim. "modproxy restore" calls [BeginRestore].
//
// A claim is a locked file in the directory, so it ends with the process, even if the process is killed. Only the
// directory's owner can connect to the socket. Symbolic links in the data directory are refused, and so is a directory whose restore
// has not ended.
package datadir

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

// lockName is the file in the data directory that the process of a claim has locked. Its text describes the process, for messages.
const lockName = "lock"

// ErrClaimed is the error if another process works in the data directory.
var ErrClaimed = errors.New("another modproxy has the data directory")

// A Claim is a data directory in which no other process writes. It ends with Close or with the process. On a read-only file
// system, several processes can have a Claim of a directory at the same time, because none of them can write.
type Claim struct {
	dir      string
	file     *os.File // nil if the file system is read-only and has no lock file
	readOnly bool
	text     string // of Announce
}

// NewClaim claims the data directory, and creates it if it does not exist. It does not wait: the error is [ErrClaimed] if another
// process works in the directory.
func NewClaim(dir string) (*Claim, error) {
	if err := create(dir); err != nil {
		return nil, err
	}
	c, err := claim(dir)
	if err == nil {
		if err = interrupted(dir); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, err
}

// claim claims an existing directory.
func claim(dir string) (*Claim, error) {
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
		return nil, hint.With(err, "run modproxy as the owner of the data directory, or name another directory with --data")
	}
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && durable.Links(info) > 1 {
		return nil, hint.With(errors.Join(fmt.Errorf("%s: it has other names (hard links), through which its text would be written, too", name), f.Close()),
			"remove it while no modproxy uses the directory")
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
	c.describe("") // the text of a process that was killed is still there
	return c, nil
}

// Patience is how long [ClaimToServe] waits for a process that serves from the directory.
type Patience struct {
	Serving time.Duration      // for a process that was not told to end yet
	Ending  time.Duration      // for a process that is ending
	Begins  func(owner string) // is called when ClaimToServe begins to wait for a process that is ending; may be nil
}

// ClaimToServe is NewClaim for "modproxy serve". If another command of modproxy works in the directory, ClaimToServe waits for it up to
// three seconds. If another process serves from the directory, it waits as p says; then the error [ErrClaimed] has the text of its
// Announce.
func ClaimToServe(ctx context.Context, dir string, p Patience) (*Claim, error) {
	owner, waits := "", false
	c, err := claimWhile(ctx, dir, func(waited time.Duration) bool {
		switch owner = ownerOf(dir); {
		case waits: // an ending process has removed its text a moment before its claim ends
		case owner == "":
			return waited < max(verbTime, p.Serving)
		case !strings.HasSuffix(owner, ending):
			return waited < p.Serving
		default:
			waits = true
			if p.Begins != nil {
				p.Begins(owner)
			}
		}
		return waited < p.Ending
	})
	if !errors.Is(err, ErrClaimed) {
		return c, err
	}
	return nil, claimedBy(err, owner)
}

// claimedBy adds the description of the process that has the directory.
func claimedBy(err error, owner string) error {
	if owner != "" {
		err = fmt.Errorf("%w: %s", err, owner)
	}
	return hint.With(err, "end that process, or use another directory (--data)")
}

// verbTime is how long a process waits for another command that works in the directory.
const verbTime = 3 * time.Second

// claimWhile claims the data directory. While another process works in it, claimWhile tries again, as long as wait returns true for the
// time that it has waited. The error is then [ErrClaimed].
func claimWhile(ctx context.Context, dir string, wait func(waited time.Duration) bool) (*Claim, error) {
	for began := time.Now(); ; {
		c, err := NewClaim(dir)
		if !errors.Is(err, ErrClaimed) || !wait(time.Since(began)) {
			return c, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Announce records the URL at which this process serves, for the message of [ClaimToServe] in another process. It ignores errors,
// because nothing but this message depends on it.
func (c *Claim) Announce(url string) {
	c.text = fmt.Sprintf("process %d, at %s", os.Getpid(), url)
	c.describe(c.text + "\n")
}

// ending is the end of the text of a process that has called [Claim.End].
const ending = ", which is ending"

// End records that this process will close the claim soon. A process in [ClaimToServe] then waits for it. Like Announce, it ignores
// errors.
func (c *Claim) End() { c.describe(c.text + ending + "\n") }

// describe replaces the text of the lock file. Only messages need the text, so errors are ignored.
func (c *Claim) describe(text string) {
	_ = c.file.Truncate(0)
	_, _ = c.file.WriteAt([]byte(text), 0)
}

// ownerOf returns the description of the process that serves from the data directory, or an empty string.
func ownerOf(dir string) string {
	f, err := durable.OpenRegular(filepath.Join(dir, lockName), os.O_RDONLY|durable.NoFollow)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 1024))
	return strings.TrimSpace(string(text))
}

// Close lets other processes claim the directory.
func (c *Claim) Close() error {
	if c.file == nil {
		return nil
	}
	c.describe("")
	return c.file.Close()
}
