package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Kinds of requests.
type kind int

const (
	versions kind = iota
	download
	archive
	health
)

func (k kind) String() string { return [...]string{"versions", "download", "package", "health"}[k] }

// A reply is an answer without its body. Err is the reason why the answer is missing or incomplete.
type reply struct {
	status   int
	header   http.Header
	size     int64
	sum      uint32        // CRC-32C of the body; processors have an instruction for it
	took     time.Duration // since the request, not since the time for it
	body     []byte        // if requested
	complete bool
	err      error
}

func (r *reply) String() string {
	if r.err != nil {
		return r.err.Error()
	}
	return fmt.Sprintf("%d, %d bytes %.200s", r.status, r.size, r.body)
}

// A conn is a connection of a client to the proxy, opened when needed. It implements a minimum of HTTP/1.1, because it shares a
// processor with many others.
type conn struct {
	address string
	timeout time.Duration // of one answer
	conn    net.Conn
	in      *bufio.Reader
	out     []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// buffers are for bodies: fewer are in use than connections.
var buffers = sync.Pool{New: func() any { return new([128 << 10]byte) }}

func (c *conn) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

func (c *conn) open(ctx context.Context) error {
	var d net.Dialer
	opened, err := d.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return err
	}
	c.conn, c.in = opened, bufio.NewReaderSize(opened, 4<<10)
	return nil
}

// send sends the request and waits for the first byte of an answer. It opens a connection again that the server has closed, as clients
// do.
func (c *conn) send(ctx context.Context, until time.Time) error {
	for {
		used := c.conn != nil
		if !used {
			if err := c.open(ctx); err != nil {
				return err
			}
		}
		c.conn.SetDeadline(until)
		_, err := c.conn.Write(c.out)
		if err == nil {
			_, err = c.in.Peek(1)
		}
		if err == nil || !used || errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		c.close()
	}
}

// ask sends a request with a token and reads the whole answer. It returns the bodies of errors, and others if keep is true.
func (c *conn) ask(ctx context.Context, path, token string, keep bool) (r reply) {
	started := time.Now()
	defer func() {
		r.took = time.Since(started)
		if r.err != nil {
			c.close()
		}
	}()
	c.out = append(append(append(c.out[:0], "GET "...), path...), " HTTP/1.1\r\nHost: "...)
	c.out = append(append(c.out, c.address...), "\r\nAccept-Encoding: gzip\r\nUser-Agent: Terraform/1.11.4\r\n"...)
	if token != "" {
		c.out = append(append(append(c.out, "Authorization: Bearer "...), token...), "\r\n"...)
	}
	c.out = append(c.out, "\r\n"...)
	if err := c.send(ctx, started.Add(c.timeout)); err != nil {
		return reply{err: err}
	}
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return reply{err: err}
	}
	r = reply{status: response.StatusCode, header: response.Header}
	buffer := buffers.Get().(*[128 << 10]byte)
	defer buffers.Put(buffer)
	for {
		n, err := response.Body.Read(buffer[:])
		r.size += int64(n)
		r.sum = crc32.Update(r.sum, castagnoli, buffer[:n])
		if keep || r.status >= 400 && len(r.body) < 1000 {
			r.body = append(r.body, buffer[:n]...)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.err = err
			return r
		}
	}
	r.complete = true
	if response.Close {
		c.close()
	}
	return r
}
