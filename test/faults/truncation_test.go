//go:build linux

package faults_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// cutAnswers are the beginnings of answers with an archive, up to the end of the connection.
var cutAnswers = map[string]func(archive []byte) string{
	"nothing":         func([]byte) string { return "" },
	"half a head":     func([]byte) string { return "HTTP/1.1 200 OK\r\nContent-Le" },
	"a head":          func(a []byte) string { return withLength(a, 0) },
	"half":            func(a []byte) string { return withLength(a, len(a)/2) },
	"all but a byte":  func(a []byte) string { return withLength(a, len(a)-1) },
	"a chunk":         func(a []byte) string { return fmt.Sprintf("%s%x\r\n%s\r\n", chunked, len(a)/2, a[:len(a)/2]) },
	"half a chunk":    func(a []byte) string { return fmt.Sprintf("%s%x\r\n%s", chunked, len(a), a[:len(a)/2]) },
	"all but the end": func(a []byte) string { return fmt.Sprintf("%s%x\r\n%s\r\n", chunked, len(a), a) },
	"up to the close": func(a []byte) string { return "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + string(a[:len(a)/2]) },
}

const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

func withLength(a []byte, sent int) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(a), a[:sent])
}

// ends are the ways in which a connection ends: normally, without the close of TLS, reset.
var ends = map[string]func(*tls.Conn){
	"closed":      func(c *tls.Conn) { c.Close() },
	"cut":         func(c *tls.Conn) { c.NetConn().Close() },
	"reset":       func(c *tls.Conn) { c.NetConn().(*net.TCPConn).SetLinger(0); c.NetConn().Close() },
	"half closed": func(c *tls.Conn) { c.NetConn().(*net.TCPConn).CloseWrite() },
}

// A truncated archive is not stored, and the next download succeeds.
func TestCutTransfers(t *testing.T) {
	t.Setenv("MODPROXY_CACHE_MISSING", "1ms")
	var well atomic.Bool
	up := &sized{bytes: 50_000}
	r := newProxy(t, with{registry: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if well.Load() || !strings.HasPrefix(r.URL.Path, "/archives/") {
			up.ServeHTTP(w, r)
			return
		}
		parts := strings.Split(r.URL.Path, "/") // /archives/v1/modules/acme/NAME/aws/…
		of := strings.Split(parts[5], "x")
		archive := packed(r.URL.Path, random(r.URL.Path, up.bytes))
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(conn, cutAnswers[strings.ReplaceAll(of[0], "-", " ")](archive))
		ends[strings.ReplaceAll(of[1], "-", " ")](conn.(*tls.Conn))
	})})
	r.start()
	r.ready()
	var group sync.WaitGroup
	var names []string
	for answer := range cutAnswers {
		for end := range ends {
			name := strings.ReplaceAll(answer+"x"+end, " ", "-")
			names = append(names, name)
			group.Go(func() {
				a := r.ask("GET", packagePath(name, "1.0.0"))
				want := http.StatusServiceUnavailable
				if answer == "up to the close" { // not allowed for an archive
					want = http.StatusFailedDependency
				}
				if a.Err != nil || a.Status != want || a.Said() == "" || want == http.StatusServiceUnavailable && a.Header.Get("Retry-After") == "" {
					t.Errorf("%s: %v", name, a)
				}
			})
		}
	}
	group.Wait()
	if kept := r.output("ls"); len(kept) > 0 {
		t.Errorf("kept:\n%s", kept)
	}
	if n := size(t, filepath.Join(r.data, "blobs")); n > 0 {
		t.Errorf("%d bytes are left", n)
	}
	well.Store(true)
	for _, name := range names {
		a := r.ask("GET", packagePath(name, "1.0.0"))
		for tries := 0; a.Status == http.StatusServiceUnavailable && tries < 60; tries++ { // clients retry
			time.Sleep(time.Second)
			a = r.ask("GET", packagePath(name, "1.0.0"))
		}
		if a.Status != http.StatusOK || a.Err != nil || len(a.Body) < up.bytes {
			t.Errorf("%s, when all is well: %v", name, a)
		}
	}
	r.stop()
	r.residue()
	if kinds := r.verify(); len(kinds) > 0 {
		t.Errorf("verify finds %v", kinds)
	}
	t.Logf("%d transfers", len(names))
}
