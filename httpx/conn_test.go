package httpx

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"
)

// connected returns a connection of a client, and its other end.
func connected(t *testing.T) (*conn, net.Conn) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	there, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	here, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := newConn(here.(*net.TCPConn), func() {})
	t.Cleanup(func() { c.Close(); there.Close() })
	return c, there
}

// deadlines are set before a call and, unless meanwhile is 0, during the call. The call ends when want has passed.
type deadlines struct{ before, meanwhile, want time.Duration }

const soon, afterwards = 40 * time.Millisecond, 160 * time.Millisecond

// A read and a write end when their deadline has passed, and not earlier, also if other deadlines were set before. They count the
// bytes until then.
func TestConnDeadlines(t *testing.T) {
	for name, times := range map[string]deadlines{
		"one":                    {afterwards, 0, afterwards},
		"an earlier one":         {time.Hour, soon, soon},
		"an earlier than none":   {0, soon, soon},
		"a later one":            {soon, afterwards, afterwards},
		"one that has passed":    {time.Hour, -time.Hour, 0},
		"that had passed before": {-time.Hour, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for what, call := range map[string]func(*conn) (int, error){
				"read":  func(c *conn) (int, error) { return c.Read(make([]byte, 1)) },
				"write": func(c *conn) (int, error) { return c.Write(make([]byte, 64<<20)) },
				"held":  func(c *conn) (int, error) { c.hold(); c.Write([]byte("12")); return c.Write(make([]byte, 64<<20)) },
				"read from": func(c *conn) (int, error) {
					n, err := c.ReadFrom(bytes.NewReader(make([]byte, 64<<20)))
					return int(n), err
				},
			} {
				if what == "read from" && name == "a later one" {
					continue // which has deadlines that are set before
				}
				for again := true; again; {
					again = !times.hold(t, what, call)
				}
			}
		})
	}
}

// hold makes one call under the deadlines. It reports whether the machine has set the second one before the first passed.
func (times deadlines) hold(t *testing.T, what string, call func(*conn) (int, error)) bool {
	t.Helper()
	c, there := connected(t)
	began := time.Now()
	at := func(d time.Duration) time.Time {
		if d == 0 {
			return time.Time{}
		}
		return began.Add(d)
	}
	c.SetDeadline(at(time.Minute))
	c.SetDeadline(at(times.before))
	set := make(chan time.Time, 1)
	if times.meanwhile != 0 {
		time.AfterFunc(soon/4, func() { c.SetDeadline(at(times.meanwhile)); set <- time.Now() })
	}
	n, err := call(c)
	took := time.Since(began)
	if times.meanwhile != 0 && (<-set).After(at(soon)) && times.before == soon {
		return false
	}
	if timeout := (net.Error)(nil); !errors.As(err, &timeout) || !timeout.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: %v", what, err)
	}
	if took < times.want {
		t.Errorf("%s: it took %v; want %v at least", what, took, times.want)
	}
	if what == "read" {
		there.Write([]byte("x"))
		c.SetReadDeadline(time.Time{})
		if n, err := c.Read(make([]byte, 2)); n != 1 || err != nil {
			t.Errorf("read again: %d, %v", n, err)
		}
		return true
	}
	c.Close()
	got, _ := io.Copy(io.Discard, there)
	if what == "held" && got >= 2 {
		got -= 2
	}
	if int64(n) != got && what != "read from" {
		t.Errorf("%s: %d were written, %d have arrived", what, n, got)
	}
	return true
}

// Held bytes leave with the next ones, or with release.
func TestConnHolds(t *testing.T) {
	c, there := connected(t)
	c.hold()
	if n, err := c.Write([]byte("header, ")); n != 8 || err != nil {
		t.Fatal(n, err)
	}
	got := make([]byte, 64<<10)
	there.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, _ := there.Read(got); n > 0 {
		t.Errorf("%q has left", got[:n])
	}
	there.SetReadDeadline(time.Time{})
	body := bytes.Repeat([]byte("body"), 4<<10)
	if n, err := c.Write(body); n != len(body) || err != nil {
		t.Fatal(n, err)
	}
	if _, err := io.ReadFull(there, got[:8+len(body)]); err != nil || string(got[:12]) != "header, body" {
		t.Errorf("%q, %v", got[:12], err)
	}
	c.Write([]byte("the "))
	c.Write([]byte("end"))
	if err := c.release(); err != nil {
		t.Fatal(err)
	}
	c.Write([]byte("."))
	if _, err := io.ReadFull(there, got[:8]); err != nil || string(got[:8]) != "the end." {
		t.Errorf("%q, %v", got[:8], err)
	}
	c.hold()
	c.Write([]byte("gone"))
	c.Close()
	if err := c.release(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("release after Close: %v", err)
	}
}

// Small and large requests are answered one after the other on one connection. The context of a handler ends when its client goes.
func TestConnServes(t *testing.T) {
	gone := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil {
			<-r.Context().Done()
			close(gone)
			return
		}
		c, ok := r.Context().Value(connKey{}).(*conn)
		if !ok {
			t.Error("the connection is not in the context")
			return
		}
		c.hold()
		w.Write(make([]byte, n))
		c.release()
	})
	serve := func(timeout time.Duration) (address string) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: handler, ReadTimeout: timeout, ReadHeaderTimeout: timeout, IdleTimeout: 2 * time.Minute, ConnContext: ConnContext}
		go server.Serve(NewListener(listener.(*net.TCPListener), 1))
		t.Cleanup(func() { server.Close() })
		return listener.Addr().String()
	}
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	ask := func(address string, i int) {
		t.Helper()
		n := []int{0, 10, 3000, 4096, 5000, 20_000, 200_000}[i%7]
		answer, err := client.Get("http://" + address + "/" + strconv.Itoa(n))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.Copy(io.Discard, answer.Body); int(got) != n || err != nil {
			t.Errorf("%d of %d: %v", got, n, err)
		}
		answer.Body.Close()
	}
	patient, longest := serve(time.Minute), time.Duration(0)
	for i := range 20 {
		began := time.Now()
		ask(patient, i)
		longest = max(longest, time.Since(began))
	}
	timeout := max(500*time.Millisecond, 10*longest) // which an honest request meets
	address := serve(timeout)
	for i := range 40 {
		if i%20 == 9 {
			time.Sleep(timeout + 100*time.Millisecond) // deadlines of earlier requests pass
		}
		ask(address, i)
	}
	client.CloseIdleConnections()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
	time.AfterFunc(timeout+100*time.Millisecond, func() { c.Close() })
	<-gone

	idle, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a client that sends nothing: %v", err)
	}
}
