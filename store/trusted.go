package store

import (
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/modproxy/modproxy"
	known "github.com/modproxy/modproxy/internal/memory"
)

const (
	// settleTime is how old a change of a file must be before the file is checked, for the check to be remembered. Any
	// later change then has another time, however coarse the clock of the file system is. It is longer than a page that
	// was written through a mapping stays writable without a new time: until it is on the disk, half a minute.
	settleTime = time.Minute
	// trustTime is for how long a check is relied on. Then the blob is read and hashed again.
	trustTime = 24 * time.Hour
	// sentSize is how much of a blob is sent between two looks at its stamp, in bytes.
	sentSize = 1 << 20
)

// checks is what is remembered of blobs that were checked. It is bounded, and safe for concurrent use.
//
// A blob whose stamp is that of a check is trusted: its bytes are those that were hashed, unless the storage gives other
// ones without a program having written them. They are given unread, with two looks at the stamp around them.
type checks struct {
	states *memory                             // of the hashes of blobs
	stamps known.Cache[modproxy.Digest, Stamp] // of blobs that were all read and hashed
	above  int64                               // the size from which on blobs are trusted: smaller ones are held in memory
	settle time.Duration
}

func newChecks(above int64) *checks {
	return &checks{states: newMemory(maxStates), above: above, settle: settleTime}
}

func stampOf(b Blob) Stamp {
	if b, ok := b.(Stamped); ok {
		return b.Stamp()
	}
	return Stamp{}
}

// know reports whether what has that stamp was checked not long ago.
func (k *checks) know(d modproxy.Digest, s Stamp) bool {
	known, ok := k.stamps.Get(d)
	return ok && known == s
}

// trust remembers, unless it has changed meanwhile or a moment ago, what had the stamp before when it was begun to be
// hashed, and has after now. It reports whether it does.
func (k *checks) trust(d modproxy.Digest, before, after Stamp, begun time.Time) bool {
	if before == (Stamp{}) || before != after || before.Size <= k.above || begun.Sub(before.Changed()) < k.settle {
		return false
	}
	left := trustTime - time.Since(begun)
	k.stamps.Add(d, before, left, 0)
	return left > 0
}

// unchanged reports whether the blob is trusted, and what it was.
func (c *checkedReader) unchanged() bool {
	return c.trusted && stampOf(c.blob) == c.stamp
}

// readTrusted reads from a blob that is trusted. Otherwise, or at its end, it reads nothing. One that has changed is
// checked as a whole before more of it is given.
func (c *checkedReader) readTrusted(p []byte) int {
	p = p[:max(0, min(int64(len(p)), c.size-c.offset))]
	if !c.trusted || len(p) == 0 {
		return 0
	}
	_, err := c.blob.Seek(c.offset, io.SeekStart)
	if err == nil {
		_, err = io.ReadFull(c.blob, p)
	}
	if err != nil || !c.unchanged() {
		c.distrust()
		return 0
	}
	c.offset += int64(len(p))
	return len(p)
}

func (c *checkedReader) distrust() {
	c.begin()
	c.part = true
}

// WriteTo implements [io.WriterTo], as SendTo does for all that is left.
func (c *checkedReader) WriteTo(w io.Writer) (int64, error) {
	return c.SendTo(w, max(0, c.size-c.offset))
}

// SendTo implements [modproxy.Sender]. The end is read before the last look at the blob, and written after it, so that a
// change before that look is noticed. What the system still holds to send may be changed after it.
func (c *checkedReader) SendTo(w io.Writer, n int64) (written int64, err error) {
	n = max(0, min(n, c.size-c.offset))
	to, ok := w.(io.ReaderFrom)
	for ok && c.err == nil && n-written > withheld {
		if _, err := c.blob.Seek(c.offset, io.SeekStart); err != nil || !c.unchanged() {
			break
		}
		file := io.LimitedReader{R: c.blob, N: min(n-written-withheld, sentSize)}
		sent, err := to.ReadFrom(&file)
		c.offset += sent
		written += sent
		if errors.Is(err, syscall.EIO) || err == nil && sent == 0 { // it is the blob's
			c.distrust()
		} else if err != nil {
			return written, err
		}
	}
	if c.trusted && !c.unchanged() {
		c.distrust()
	}
	rest, err := io.CopyN(struct{ io.Writer }{w}, c, n-written)
	if written += rest; err == io.EOF {
		err = nil // it was asked for more than there is
	}
	return written, err
}
