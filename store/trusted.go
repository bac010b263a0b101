package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/memory"
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
	// copiedSize is how much of the end of what is sent is read instead, in bytes. It is more than the system holds of what
	// was given to a connection and has not arrived: 4 MiB, as Linux has it in net.ipv4.tcp_wmem. So all that was sent
	// from the file has arrived before the last look at its stamp.
	copiedSize = 5 << 20
)

// checks is what is remembered of blobs that were checked. It is bounded, and safe for concurrent use.
//
// A blob whose stamp is that of a check is trusted: its bytes are those that were hashed, unless the storage gives other
// ones without a program having written them. They are given unread, with two looks at the stamp around them.
type checks struct {
	states *memory.Bytes[modproxy.Digest]       // of the hashes of blobs
	stamps memory.Cache[modproxy.Digest, Stamp] // of blobs that were all read and hashed
	above  int64                                // the size from which on blobs are trusted: smaller ones are held in memory
	settle time.Duration
}

func newChecks(above int64) *checks {
	return &checks{states: memory.NewBytes[modproxy.Digest](maxStates), above: above, settle: settleTime}
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

// distrust has the blob checked before more of it is given. If it was written to, what was sent of it before may be wrong,
// even if it is right again: then no more is given. Other changes, as a new name of its file, have damaged nothing.
func (c *checkedReader) distrust() {
	was := c.stamp
	c.begin()
	c.checkAll = true
	if c.sent && c.stamp.ModTime != was.ModTime && c.check(context.Background()) == nil {
		c.err = fmt.Errorf("%w: blob %v: its file was written to while it was sent", modproxy.ErrUnavailable, c.want)
	}
}

// WriteTo implements [io.WriterTo], as SendTo does for all that is left.
func (c *checkedReader) WriteTo(w io.Writer) (int64, error) {
	return c.SendTo(w, max(0, c.size-c.offset))
}

// SendTo implements [modproxy.Sender]. The system sends what is in the file when it comes to it. The end is read, so that the
// last look at the blob is after that, and before the last bytes are written.
func (c *checkedReader) SendTo(w io.Writer, n int64) (written int64, err error) {
	n = max(0, min(n, c.size-c.offset))
	to, ok := w.(io.ReaderFrom)
	for ok && c.err == nil && n-written > copiedSize {
		if _, err := c.blob.Seek(c.offset, io.SeekStart); err != nil || !c.unchanged() {
			break
		}
		file := io.LimitedReader{R: c.blob, N: min(n-written-copiedSize, sentSize)}
		sent, err := to.ReadFrom(&file)
		c.offset += sent
		c.sent = c.sent || sent > 0
		written += sent
		if errors.Is(err, syscall.EIO) || err == nil && sent == 0 { // it is the blob's
			c.distrust()
		} else if err != nil {
			return written, err
		}
	}
	rest, err := io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(c, n-written), make([]byte, pieceSize))
	return written + rest, err
}
