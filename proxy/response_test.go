package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/proxy"
)

// pipes is a listener whose connections have no buffer: a write waits until it is read.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial() net.Conn {
	here, there := net.Pipe()
	p <- there
	return here
}

// ask sends a request, and reads the answer up to its body.
func ask(t *testing.T, c net.Conn, path string) (*http.Response, error) {
	t.Helper()
	return askAs(t, c, path, "")
}

// askAs shows a token, unless it is empty.
func askAs(t *testing.T, c net.Conn, path, token string) (*http.Response, error) {
	t.Helper()
	if token != "" {
		path += " HTTP/1.1\r\nAuthorization: Bearer " + token
	} else {
		path += " HTTP/1.1"
	}
	if _, err := io.WriteString(c, "GET "+path+"\r\nHost: x\r\n\r\n"); err != nil {
		return nil, err
	}
	return http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
}

// large is a registry whose packages are much larger than what a client has to
// take at once.
type large struct{ modproxy.Registry }

type nopCloser struct{ io.ReadSeeker }

func (nopCloser) Close() error { return nil }

func (large) Package(context.Context, modproxy.ModuleVersion) (*modproxy.Package, error) {
	return &modproxy.Package{ReadSeekCloser: nopCloser{bytes.NewReader(make([]byte, 1<<20))}, Size: 1 << 20}, nil
}

// serve serves large answers on connections without a buffer.
func serve(t *testing.T) (p pipes, log *bytes.Buffer) {
	log = &bytes.Buffer{}
	h := newHandler(t, func(c *proxy.Config, s *scripted) {
		s.how = func(v *modproxy.Versions) { v.Document = bytes.Repeat([]byte("x"), 1<<20) }
		c.Registry = large{c.Registry}
		c.Log = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{LevelKey: "level", EncodeLevel: zapcore.LowercaseLevelEncoder}), zapcore.AddSync(log), zapcore.InfoLevel))
	})
	p = make(pipes)
	server := &http.Server{Handler: h}
	go server.Serve(p)
	t.Cleanup(func() { server.Close() })
	return p, log
}

// A client that does not read its answer is cut off after a minute, whether it
// read the beginning or nothing, and the log says so.
func TestSlowReaderIsCut(t *testing.T) {
	for _, path := range []string{base + "/versions", archive} {
		synctest.Test(t, func(t *testing.T) {
			p, log := serve(t)
			c := p.dial()
			start := time.Now()
			answer, err := ask(t, c, path)
			if err != nil || answer.StatusCode != http.StatusOK {
				t.Fatal(answer, err)
			}
			time.Sleep(2 * time.Minute)
			if _, err := io.Copy(io.Discard, answer.Body); err == nil {
				t.Errorf("%s: all of it was there after %v", path, time.Since(start))
			}
			synctest.Wait()
			if want := `"level":"warn"`; !strings.Contains(log.String(), want) || !strings.Contains(log.String(), "too slowly") || !strings.Contains(log.String(), `"seconds":60`) {
				t.Errorf("%s: the log is %s", path, log)
			}
		})
	}
}

// A slow client gets all of its answer however long it takes, as long as it goes
// on, and may ask again on the same connection after the time for a piece is over.
func TestSlowReaderIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := serve(t)
		c := p.dial()
		defer c.Close()
		start := time.Now()
		answer, err := ask(t, c, base+"/versions")
		if err != nil {
			t.Fatal(err)
		}
		var got int64
		for err == nil {
			time.Sleep(5 * time.Second)
			var n int64
			n, err = io.CopyN(io.Discard, answer.Body, 8<<10)
			got += n
		}
		if err != io.EOF || got != 1<<20 || time.Since(start) < 10*time.Minute {
			t.Errorf("%d bytes after %v: %v", got, time.Since(start), err)
		}
		for _, path := range []string{archive, base + "/1.1.0/download", "/-/healthz", "/nothing"} {
			time.Sleep(2 * time.Minute)
			answer, err := ask(t, c, path)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if _, err := io.Copy(io.Discard, answer.Body); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
}
