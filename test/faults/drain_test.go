//go:build linux

package faults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// narrow is a client with small buffers.
func narrow() *http.Client {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(32 << 10)
		}
		return conn, err
	}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
}

// begin requests a package and reads its beginning.
func (r *proxy) begin(p keptPackage) (*http.Response, *bytes.Buffer) {
	r.t.Helper()
	client := narrow()
	if from, ok := r.client.Transport.(*http.Transport); ok {
		client.Transport.(*http.Transport).TLSClientConfig = from.TLSClientConfig
	}
	resp, err := client.Get(r.url + p.path)
	if err != nil {
		r.t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := io.CopyN(&got, resp.Body, 64<<10); err != nil {
		r.t.Fatalf("%s: %s, %v\n%.500s", p.path, resp.Status, err, got.Bytes())
	}
	return resp, &got
}

// On SIGTERM during the transfer of a large package, modproxy sends all of it and exits with 0. If the client does not read it in time,
// or modproxy is killed, the transfer is cut off and does not look whole.
func TestEndWhileStreaming(t *testing.T) {
	t.Setenv("MODPROXY_SHUTDOWN", "1m")
	r := newProxy(t, with{registry: &sized{bytes: rounds(12<<20, 100<<20)}})
	r.client.Timeout = time.Minute
	r.start()
	r.ready()
	p := r.keep("large")

	resp, got := r.begin(p)
	server := r.server
	signalled := time.Now()
	server.Signal(syscall.SIGTERM)
	for started := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
		if err == nil {
			conn.Close()
		}
		if time.Since(started) > 30*time.Second {
			t.Errorf("a new connection: %v", err)
			break
		}
	}
	_, err := io.Copy(got, resp.Body)
	resp.Body.Close()
	if err != nil || !bytes.Equal(got.Bytes(), p.body) {
		t.Errorf("%d bytes of %d, %v", got.Len(), len(p.body), err)
	}
	if err := server.Wait(2 * time.Minute); err != nil {
		t.Errorf("the end of modproxy: %v", err)
	}
	r.server = nil
	t.Logf("%d bytes were sent to their end, and modproxy ended after %v", got.Len(), time.Since(signalled))

	cut := func(what string, end func()) {
		t.Helper()
		r.start()
		r.ready()
		resp, got := r.begin(p)
		defer resp.Body.Close()
		end()
		if _, err := io.Copy(got, resp.Body); err == nil || !bytes.HasPrefix(p.body, got.Bytes()) {
			t.Errorf("%s: %d bytes of %d, %v", what, got.Len(), len(p.body), err)
		}
	}
	t.Setenv("MODPROXY_SHUTDOWN", "1s")
	cut("who does not read", func() {
		signalled := time.Now()
		r.stop()
		if took := time.Since(signalled); took < time.Second || rig.Late(took, 6*time.Second) {
			t.Errorf("it took %v; want 1s and little more", took)
		}
	})
	cut("killed", r.kill)
	if kinds := r.verify(); len(kinds) > 0 {
		t.Errorf("verify finds %v", kinds)
	}
}

// usage is the number of resources of a process that can leak.
type usage struct{ descriptors, goroutines, children int }

func (r *proxy) usage() (u usage) {
	r.t.Helper()
	pid := strconv.Itoa(r.server.ID())
	open, err := os.ReadDir("/proc/" + pid + "/fd")
	if err != nil {
		r.t.Fatal(err)
	}
	u.descriptors = len(open)
	tasks, err := filepath.Glob("/proc/" + pid + "/task/*/children")
	if err != nil || len(tasks) == 0 {
		r.t.Fatalf("%v, %v", tasks, err)
	}
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // the thread may have ended
		u.children += len(strings.Fields(string(text)))
	}
	for line := range strings.Lines(string(r.ask("GET", "/-/metrics").Body)) {
		if n, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			u.goroutines, err = strconv.Atoi(strings.TrimSpace(n))
		}
	}
	if err != nil || u.goroutines == 0 {
		r.t.Fatalf("no metric of goroutines: %v", err)
	}
	return u
}

// Clients that go away during a download or a transfer leave no resources behind.
func TestClientsThatGoAway(t *testing.T) {
	const idle = 16 // idle connections to upstream, each with two goroutines
	more := func(before, after usage) bool {
		return after.descriptors > before.descriptors+idle || after.goroutines > before.goroutines+2*idle || after.children > before.children
	}
	large := &sized{bytes: 4 << 20}
	up := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/large/") {
			large.ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/archives/") {
			time.Sleep(20 * time.Millisecond)
		}
		answer(w, r)
	})
	r := newProxy(t, with{registry: up})
	r.client.Timeout = time.Minute
	r.start()
	r.ready()
	p := r.keep("large")
	before := r.usage()
	n := rounds(200, 1000)
	queue := make(chan int)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range queue {
				path := p.path
				if i%3 == 0 {
					path = packagePath(fmt.Sprintf("m%d", i), "1.0.0")
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(20))*time.Millisecond)
				req, err := http.NewRequestWithContext(ctx, "GET", r.url+path, nil)
				if err != nil {
					t.Error(err)
				} else if resp, err := narrow().Do(req); err == nil {
					io.CopyN(io.Discard, resp.Body, rand.Int64N(1<<20)) // any part
					resp.Body.Close()
				}
				cancel()
			}
		})
	}
	for i := range n {
		queue <- i
	}
	close(queue)
	group.Wait()
	var after usage
	for started := time.Now(); time.Since(started) < 2*time.Minute; time.Sleep(100 * time.Millisecond) {
		after = r.usage()
		if !more(before, after) {
			break
		}
	}
	if more(before, after) {
		t.Errorf("after %d clients that went away: %+v; before them %+v", n, after, before)
	}
	if a := r.ask("GET", p.path); a.Status != http.StatusOK || !bytes.Equal(a.Body, p.body) {
		t.Errorf("afterwards: %v", a)
	}
	r.stop()
	r.residue()
	if kinds := r.verify(); len(kinds) > 0 {
		t.Errorf("verify finds %v", kinds)
	}
	t.Logf("%d clients went away: %+v before, %+v after", n, before, after)
}
