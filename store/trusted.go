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
	// settleTime is the minimum age of a file's last change for a check of the file to be remembered. Every later
	// change then has a different time, even if the clock of the file system is coarse. It is longer than the half
	// minute for which a page written through a mapping stays writable without a new time.
	settleTime = time.Minute
	// trustTime is how long a check counts. Afterwards the blob is read and hashed again.
	trustTime = 24 * time.Hour
	// sentSize is the number of bytes of a blob that are sent between two checks of its stamp.
	sentSize = 1 << 20
	// copiedSize is the number of bytes at the end of the content that are read instead of sent. It exceeds the bytes
	// that the system holds for a connection before they arrive, 4 MiB on Linux (net.ipv4.tcp_wmem). All bytes sent
	// from the file have thus arrived before the last check of its stamp.
	copiedSize = 5 << 20
)

// checks contains results of checks. It is bounded, and safe for concurrent use.
//
// A blob that has the stamp of an earlier check is trusted: its bytes are those that were hashed, unless the disk
// changes bytes without a program. Trusted bytes are returned without hashing, with a check of the stamp before and
// after.
type checks struct {
	states *memory.Bytes[modproxy.Digest]       // of the hashes of blobs
	stamps memory.Cache[modproxy.Digest, Stamp] // of blobs that were read and hashed completely
	above  int64                                // blobs larger than this are trusted; smaller ones are held in memory
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

// know reports whether a blob with that stamp was checked recently.
func (k *checks) know(d modproxy.Digest, s Stamp) bool {
	known, ok := k.stamps.Get(d)
	return ok && known == s
}

// trust remembers the check of a blob. before and after are its stamps, begun is the start of the check. trust
// remembers nothing if the blob has changed meanwhile or shortly before. It reports whether the blob is now trusted.
func (k *checks) trust(d modproxy.Digest, before, after Stamp, begun time.Time) bool {
	if before == (Stamp{}) || before != after || before.Size <= k.above || begun.Sub(before.Changed()) < k.settle {
		return false
	}
	left := trustTime - time.Since(begun)
	k.stamps.Add(d, before, left, 0)
	return left > 0
}

// unchanged reports whether the blob is trusted and has the same stamp.
func (c *checkedReader) unchanged() bool {
	return c.trusted && stampOf(c.blob) == c.stamp
}

// readTrusted reads from a trusted blob. It returns 0 at the end, or if the blob is not trusted. A blob that has
// changed is checked as a whole before more of it is returned.
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

// distrust makes the reader check the blob before it returns more. If the blob was written to, the bytes that were sent
// may be wrong, even if the blob is right again, and the reader returns an error. Other changes, such as a new name of
// the file, have damaged nothing.
func (c *checkedReader) distrust() {
	was := c.stamp
	c.begin()
	c.checkAll = true
	if c.sent && c.stamp.ModTime != was.ModTime && c.check(context.Background()) == nil {
		c.err = fmt.Errorf("%w: blob %v: its file was written to while it was sent", modproxy.ErrUnavailable, c.want)
	}
}

// WriteTo implements [io.WriterTo]. It is like SendTo for the rest of the blob.
func (c *checkedReader) WriteTo(w io.Writer) (int64, error) {
	return c.SendTo(w, max(0, c.size-c.offset))
}

// SendTo implements [modproxy.Sender]. The system sends the current content of the file. SendTo reads the end itself,
// so that the last check of the stamp is after everything sent, and before the last bytes are written.
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
		if errors.Is(err, syscall.EIO) || err == nil && sent == 0 { // an error of the blob
			c.distrust()
		} else if err != nil {
			return written, err
		}
	}
	rest, err := io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(c, n-written), make([]byte, pieceSize))
	return written + rest, err
}
