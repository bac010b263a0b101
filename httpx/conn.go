package httpx

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// conn is the connection of a client. It needs fewer system calls and timers than net/http asks for: it sets a deadline when that
// makes a difference, and writes between hold and release leave together.
type conn struct {
	*net.TCPConn
	leave         func() // is called by Close
	accepted      time.Time
	used          atomic.Bool  // a request has come
	idle          atomic.Int64 // since when it waits for a request, in Unix nanoseconds; 0 if it does not
	reads, writes deadline
	held          *[]byte // bytes that were written since hold; nil without hold. The goroutine that writes owns it
}

type connKey struct{}

// ConnContext returns the context of the requests of a connection, for the field of [http.Server]: with it, a [Response] on a
// connection of a [Listener] leaves together with its header.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if encrypted, ok := c.(*tls.Conn); ok {
		c = encrypted.NetConn()
	}
	if c, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

func newConn(c *net.TCPConn, leave func()) *conn {
	return &conn{TCPConn: c, leave: leave, accepted: time.Now(), reads: deadline{apply: c.SetReadDeadline}, writes: deadline{apply: c.SetWriteDeadline}}
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

// writeHeld writes the bytes that are held, and p. It returns how many bytes of p were written.
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

// ReadFrom lets the system send a file, see [net.TCPConn]. Callers give it parts of a file, each with a deadline of its own.
func (c *conn) ReadFrom(r io.Reader) (n int64, err error) {
	if err = c.release(); err != nil {
		return 0, err
	}
	if err = c.writes.begin(); err == nil {
		c.writes.renew()
		n, err = c.TCPConn.ReadFrom(r)
	}
	c.writes.end(err)
	return n, err
}

// beginnings has buffers for the first write of net/http, which has 4 KiB: the header and the beginning of an answer.
var beginnings = sync.Pool{New: func() any {
	b := make([]byte, 0, 4<<10)
	return &b
}}

// hold holds back the beginning of the bytes that are written until more follow, or release.
func (c *conn) hold() {
	if c.held == nil {
		c.held = beginnings.Get().(*[]byte)
	}
}

// release writes the bytes that are held.
func (c *conn) release() (err error) {
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

// deadline is the deadline of the reads or the writes of a connection. It is applied to the connection if it is earlier than the
// applied one while a call waits, or when the applied one has passed.
type deadline struct {
	apply func(time.Time) error // of the connection

	mu      sync.Mutex
	wanted  time.Time
	applied time.Time
	over    bool // applied was in the past when it was applied
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

// isEarlier reports whether the applied deadline is too late.
func (d *deadline) isEarlier() bool {
	return !d.wanted.IsZero() && (d.applied.IsZero() || d.wanted.Before(d.applied))
}

// renew applies the deadline.
func (d *deadline) renew() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.applied != d.wanted {
		d.renewLocked()
	}
}

func (d *deadline) renewLocked() {
	d.applied, d.over = d.wanted, d.isOver()
	_ = d.apply(d.wanted) // an error, as of a closed connection, fails the call, too
}

func (d *deadline) isOver() bool { return !d.wanted.IsZero() && !time.Now().Before(d.wanted) }

// begin is called before a call that the deadline ends. It returns an error if the deadline has passed. end must follow.
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

// end is called with the error of a call. It reports whether the call ended too early, and must be repeated.
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
