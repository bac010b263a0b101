package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/proxy"
)

// pipes is a listener whose connections have no buffer: a write waits until it is read.
type pipes struct {
	conns chan net.Conn
	sent  *atomic.Int64 // bytes of files
}

func newPipes() pipes { return pipes{make(chan net.Conn), new(atomic.Int64)} }

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return sending{c, p.sent}, nil
}

func (p pipes) Close() error   { close(p.conns); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.conns <- there
	return here
}

// ask sends a request, and reads the answer up to its body.
func ask(t *testing.T, c net.Conn, path string) (*http.Response, error) {
	t.Helper()
	return askAs(t, c, path, "")
}

// askAs is ask with a token, unless it is empty.
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

// large is a registry whose packages are much larger than a piece.
type large struct{ modproxy.Registry }

type nopCloser struct{ io.ReadSeeker }

func (nopCloser) Verify(context.Context) error { return nil }

func (nopCloser) Close() error { return nil }

// filed is a registry like large, with packages in files.
type filed struct {
	modproxy.Registry
	dir string
}

func (f filed) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	name := filepath.Join(f.dir, "package")
	if err := os.WriteFile(name, make([]byte, 1<<20), 0o600); err != nil {
		return nil, err
	}
	file, err := os.Open(name)
	return &modproxy.Package{Body: sender{file}, Size: 1 << 20}, err
}

type sender struct{ *os.File }

func (sender) Verify(context.Context) error { return nil }

func (f sender) SendTo(w io.Writer, n int64) (int64, error) {
	return w.(io.ReaderFrom).ReadFrom(&io.LimitedReader{R: f.File, N: n})
}

func (f sender) WriteTo(w io.Writer) (int64, error) { return f.SendTo(w, 1<<20) }

// sending is a connection that the system can send files to. It counts their bytes.
type sending struct {
	net.Conn
	sent *atomic.Int64
}

func (c sending) ReadFrom(r io.Reader) (int64, error) {
	if _, ok := r.(*io.LimitedReader).R.(*os.File); !ok {
		return 0, errors.New("it is not a file")
	}
	n, err := io.Copy(c.Conn, r)
	c.sent.Add(n)
	return n, err
}

func (large) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	return &modproxy.Package{Body: nopCloser{bytes.NewReader(make([]byte, 1<<20))}, Size: 1 << 20}, nil
}

// serve serves large answers on connections without a buffer, packages from files if files is set.
func serve(t *testing.T, files bool) (p pipes, log *bytes.Buffer) {
	log = &bytes.Buffer{}
	h := newHandler(t, func(c *proxy.Config, s *scripted) {
		s.how = func(v *modproxy.Versions) { v.Document = bytes.Repeat([]byte("x"), 1<<20) }
		if c.Registry = (large{c.Registry}); files {
			c.Registry = filed{c.Registry, t.TempDir()}
		}
		c.Log = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{LevelKey: "level", EncodeLevel: zapcore.LowercaseLevelEncoder}), zapcore.AddSync(log), zapcore.InfoLevel))
	})
	p = newPipes()
	server := &http.Server{Handler: h}
	go server.Serve(p)
	t.Cleanup(func() { server.Close() })
	return p, log
}

// A client that does not read its answer is cut off after a minute, whether it
// read the beginning or nothing, and the log says so.
func TestSlowReaderIsCut(t *testing.T) {
	for i, path := range []string{base + "/versions", archive, archive} {
		synctest.Test(t, func(t *testing.T) {
			p, log := serve(t, i == 2)
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

// A slow client that goes on reading gets all of its answer, and may send another request on the same connection after the time for
// a piece.
func TestSlowReaderIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, log := serve(t, true)
		c := p.dial()
		defer c.Close()
		for _, path := range []string{base + "/versions", archive} {
			start := time.Now()
			answer, err := ask(t, c, path)
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
				t.Errorf("%s: %d bytes after %v: %v", path, got, time.Since(start), err)
			}
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
		if n := strings.Count(log.String(), `"bytes":1048576`); n != 3 {
			t.Errorf("%d answers of that size in the log: %s", n, log)
		}
	})
}

// The system sends the requested part of a package from its file, without the bytes that net/http inspects.
func TestFilesAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := serve(t, true)
		c := p.dial()
		defer c.Close()
		for asked, want := range map[string]int64{"X: 1": 1 << 20, "Range: bytes=0-": 1 << 20, "Range: bytes=100-99999": 99_900, "Range: bytes=-70000": 70_000} {
			p.sent.Store(0)
			answer, err := ask(t, c, archive+" HTTP/1.1\r\n"+asked+"\r\nX: ")
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.Copy(io.Discard, answer.Body)
			synctest.Wait()
			if sent := p.sent.Load(); got != want || err != nil || sent < want-512 {
				t.Errorf("%q: %d bytes, %d of them sent from the file, %v; want %d", asked, got, sent, err, want)
			}
		}
	})
}

// greedy is a client that takes everything at once. It records how many bytes it had when another goroutine first ran.
type greedy struct {
	nowhere
	got  int
	turn atomic.Bool
	at   int // 0 while they had none
}

func (g *greedy) Write(p []byte) (int, error) {
	if g.got += len(p); g.turn.Load() && g.at == 0 {
		g.at = g.got
	}
	return len(p), nil
}

func (g *greedy) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{g}, r) }

// While a client takes its answer as fast as it is written, other goroutines run on the only processor.
func TestGreedyReaderLetsOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, files := range []bool{false, true} {
		h := newHandler(t, func(c *proxy.Config, _ *scripted) {
			if c.Registry = (large{c.Registry}); files {
				c.Registry = filed{c.Registry, t.TempDir()}
			}
		})
		g := &greedy{nowhere: nowhere{header: http.Header{}}}
		h.ServeHTTP(starting{g}, httptest.NewRequest(http.MethodGet, archive, nil))
		if g.got != 1<<20 || g.at == 0 || g.at > 512<<10 {
			t.Errorf("files %v: others had their turn after %d of %d bytes", files, g.at, g.got)
		}
	}
}

// starting starts the other goroutine when the header is written.
type starting struct{ *greedy }

func (s starting) WriteHeader(int) { go s.turn.Store(true) }
