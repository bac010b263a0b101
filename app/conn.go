package app

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// conn is the connection of a client. It does with few system calls and timers what net/http does with many: its deadlines are
// set when that makes a difference, and what is written between Hold and Release leaves together.
type conn struct {
	*net.TCPConn
	leave         func()       // when it is closed
	idle          atomic.Int64 // since when it waits for a request, in Unix nanoseconds; 0 if it does not
	reads, writes deadline
	held          *[]byte // what waits for more; nil if nothing has to
}

func newConn(c *net.TCPConn, leave func()) *conn {
	return &conn{TCPConn: c, leave: leave, reads: deadline{apply: c.SetReadDeadline}, writes: deadline{apply: c.SetWriteDeadline}}
}

func (c *conn) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}

func (c *conn) SetDeadline(t time.Time) error {
	c.reads.set(t)
	c.writes.set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.reads.set(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writes.set(t)
	return nil
}

func (c *conn) Read(p []byte) (n int, err error) {
	for again := true; again; again = c.reads.end(err) {
		if err = c.reads.begin(); err == nil {
			n, err = c.TCPConn.Read(p)
		}
	}
	return n, err
}

func (c *conn) Write(p []byte) (written int, err error) {
	switch {
	case c.held != nil && len(*c.held)+len(p) <= cap(*c.held):
		*c.held = append(*c.held, p...)
		return len(p), nil
	case c.held != nil:
		return c.writeHeld(p)
	}
	for again := true; again; again = c.writes.end(err) {
		if err = c.writes.begin(); err == nil {
			var n int
			n, err = c.TCPConn.Write(p[written:])
			written += n
		}
	}
	return written, err
}

// writeHeld writes what is held, and p, of which it returns how much was written.
func (c *conn) writeHeld(p []byte) (written int, err error) {
	all := net.Buffers{*c.held, p}
	written = -len(*c.held)
	*c.held = (*c.held)[:0]
	for again := true; again; again = c.writes.end(err) {
		if err = c.writes.begin(); err == nil {
			var n int64
			n, err = all.WriteTo(c.TCPConn)
			written += int(n)
		}
	}
	return max(0, written), err
}

// ReadFrom has the system send files, see [net.TCPConn]. It is called with parts of them, each with a deadline of its own.
func (c *conn) ReadFrom(r io.Reader) (n int64, err error) {
	if err = c.Release(); err != nil {
		return 0, err
	}
	if err = c.writes.begin(); err == nil {
		c.writes.renew()
		n, err = c.TCPConn.ReadFrom(r)
	}
	c.writes.end(err)
	return n, err
}

// beginnings are for what net/http writes first: its buffer, when that is full of the header and the beginning of an answer.
var beginnings = sync.Pool{New: func() any {
	b := make([]byte, 0, 4<<10)
	return &b
}}

// Hold implements [proxy.Holder].
func (c *conn) Hold() {
	if c.held == nil {
		c.held = beginnings.Get().(*[]byte)
	}
}

// Release implements [proxy.Holder].
func (c *conn) Release() (err error) {
	if c.held == nil {
		return nil
	}
	if len(*c.held) > 0 {
		_, err = c.writeHeld(nil)
	}
	beginnings.Put(c.held)
	c.held = nil
	return err
}

// deadline is one of a connection, for its reads or its writes. What has it set is one that is earlier than that which is, while
// something waits, or that one's end.
type deadline struct {
	apply func(time.Time) error // of the connection

	mu      sync.Mutex
	wanted  time.Time
	applied time.Time
	over    bool // applied was in the past
	waiting int  // calls that the deadline ends
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = t
	if d.waiting > 0 && d.isEarlier() {
		d.renewLocked()
	}
}

// isEarlier reports whether what is applied is too late.
func (d *deadline) isEarlier() bool {
	return !d.wanted.IsZero() && (d.applied.IsZero() || d.wanted.Before(d.applied))
}

// renew makes the connection's deadline the one that is wanted.
func (d *deadline) renew() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.applied != d.wanted {
		d.renewLocked()
	}
}

func (d *deadline) renewLocked() {
	d.applied, d.over = d.wanted, d.isOver()
	_ = d.apply(d.wanted) // what fails, as when it is closed, fails the call, too
}

func (d *deadline) isOver() bool { return !d.wanted.IsZero() && !time.Now().Before(d.wanted) }

// begin is called before a call that the deadline ends. Its error is that this is over. end must follow.
func (d *deadline) begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting++
	switch earlier := d.isEarlier(); {
	case earlier && d.isOver():
		return os.ErrDeadlineExceeded
	case earlier, d.over:
		d.renewLocked()
	}
	return nil
}

// end is called with the error of a call, and reports whether it has ended too early, and is to go on.
func (d *deadline) end(err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting--
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || d.isOver() {
		return false
	}
	d.renewLocked()
	return true
}
