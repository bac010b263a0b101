//go:build linux

package hostile_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// randomPackage is an archive of size bytes that cannot be compressed.
func randomPackage(t testing.TB, size int) []byte {
	data := make([]byte, size)
	rand.Read(data)
	return tarGz(t, entry{name: "random", data: string(data)})
}

// digestOf reads a package without holding it in memory.
func (p *proxy) digestOf(ctx context.Context, path string) (digest string, size int64, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return "", 0, err
	}
	p.count(1)
	res, err := plain.Do(r)
	if err != nil {
		return "", 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", 0, fmt.Errorf("%s", res.Status)
	}
	h := sha256.New()
	size, err = io.Copy(h, res.Body)
	if err == nil && size != res.ContentLength {
		err = fmt.Errorf("%d bytes of %d", size, res.ContentLength)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), size, err
}

// Two hundred clients request a package that is not stored yet. The first goes away after half of it. It is fetched once, and all others
// get it whole.
func TestStampedeCostsOneFetch(t *testing.T) {
	p := startOwn(t, ordinary)
	crowd, size := 199, 5<<20
	if shorter(t, "60 at once and 1 MiB, instead of 200 and 5 MiB") {
		crowd, size = 59, 1<<20
	}
	data := randomPackage(t, size)
	half, goOn := make(chan bool), make(chan bool)
	var fetches atomic.Int32
	m := atArchive(t, "x.tar.gz", func(w http.ResponseWriter, r *http.Request) {
		if fetches.Add(1) > 1 {
			w.Write(data)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		w.Write(data[:len(data)/2])
		w.(http.Flusher).Flush()
		close(half)
		<-goOn
		w.Write(data[len(data)/2:])
	})
	p.run("first-goes-away", func(t *testing.T) {
		leaving, leave := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, _, err := p.digestOf(leaving, m.archive("1.0.0"))
			gone <- err
		}()
		<-half
		digests := make([]string, crowd)
		var group sync.WaitGroup
		for i := range crowd {
			group.Go(func() {
				digest, _, err := p.digestOf(t.Context(), m.archive("1.0.0"))
				if digests[i] = digest; err != nil {
					t.Error(err)
				}
			})
		}
		waiting := func() bool { return p.connections() >= crowd+1 }
		if !eventually(waiting) {
			t.Errorf("%d wait; want %d", p.connections(), crowd+1)
		}
		leave()
		if err := <-gone; err == nil {
			t.Error("the first had it all: the case shows nothing")
		}
		time.Sleep(100 * time.Millisecond) // until modproxy notices it
		close(goOn)
		group.Wait()
		slices.Sort(digests)
		if different := slices.Compact(digests); len(different) != 1 {
			t.Errorf("%d different packages", len(different))
		}
		if n := fetches.Load(); n != 1 {
			t.Errorf("fetched %d times", n)
		}
	})
}

// connections is the number of sockets of the program.
func (p *proxy) connections() int {
	n := 0
	for _, link := range p.files() {
		if strings.HasPrefix(link, "socket:") {
			n++
		}
	}
	return n
}

// slowest is the longest time of an ordinary request among a hundred.
func (p *proxy) slowest(t *testing.T, requests int) time.Duration {
	t.Helper()
	m := module{"up-a.test", "good", "archive", "aws"}
	var took []time.Duration
	for i := range requests {
		path := []string{m.path("versions"), m.path("1.0.0/download"), m.archive("1.0.0")}[i%3]
		a := p.ask(http.MethodGet, path)
		if a.Status >= 300 {
			t.Fatalf("%s: %d %s", path, a.Status, a.Said())
		}
		took = append(took, a.Took)
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// hardlyWorse checks that other clients do not wait for a crowd, which stays at least ten seconds. A test cannot judge by how much a busy
// machine slows down.
func hardlyWorse(t *testing.T, before, now time.Duration) {
	t.Helper()
	t.Logf("99 of 100 requests within %v; before, within %v", now, before)
	if rig.Late(now, max(2*before, 5*time.Second)) {
		t.Errorf("99 of 100 requests took up to %v; before, %v", now, before)
	}
}

// A flood of missing names hardly slows other clients, uses no memory permanently, and costs each registry at most one request for each
// name.
func TestFloodOfAbsentNames(t *testing.T) {
	p := startOwn(t, ordinary)
	n, requests := 20_000, 200
	if shorter(t, "200 absent names instead of 20000") {
		n, requests = 200, 60
	}
	before := p.slowest(t, requests)
	asked := len(world.good["up-b.test"].Requests())
	next := make(chan int)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for i := range next {
				m := module{"up-b.test", "absent", fmt.Sprintf("m%d", i), "aws"}
				if a := p.ask(http.MethodGet, m.path("versions")); a.Status != http.StatusNotFound && a.Status != http.StatusServiceUnavailable {
					p.t.Errorf("%d: %s", a.Status, a.Said())
				}
			}
		})
	}
	var during time.Duration
	group.Go(func() { during = p.slowest(t, requests) })
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
	p.run("afterwards", func(t *testing.T) {
		hardlyWorse(t, before, during)
		if got := len(world.good["up-b.test"].Requests()) - asked; got > n+10 {
			t.Errorf("%d questions to the registry for %d names", got, n)
		}
		if size := len(p.ask(http.MethodGet, "/-/metrics").Body); size > 64<<10 {
			t.Errorf("%d bytes of metrics: there is one for each name?", size)
		}
	})
	world.good["up-b.test"].Reset()
}

// Clients that send their request slowly are cut off. Clients that read slowly, or not at all, cost little. Other clients are not affected.
func TestSlowClients(t *testing.T) {
	p := startOwn(t, ordinary)
	slow, readers, deaf, requests := 2000, 200, 100, 200
	few := shorter(t, "100 slow connections instead of 2000, a tenth of the readers, and no waiting for the end")
	if few {
		slow, readers, deaf, requests = 100, 20, 10, 60
	}
	m := atArchive(t, "x.tar.gz", bytesOf(randomPackage(t, 5<<20)))
	if a := p.install(m, "1.0.0"); a.Status != http.StatusOK {
		t.Fatal(a.Said())
	}
	before := p.slowest(t, requests)
	dial := func(first string) net.Conn {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		io.WriteString(conn, first)
		return conn
	}
	get := "GET " + m.archive("1.0.0") + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	for i := range readers + deaf {
		p.count(1)
		conn := dial(get)
		if i < readers {
			go func() {
				for some := make([]byte, 1024); ; time.Sleep(time.Second) {
					if _, err := conn.Read(some); err != nil {
						return
					}
				}
			}()
		}
	}
	started := time.Now()
	cut := make(chan time.Duration, slow)
	for range slow {
		conn := dial("GET / HTTP/1.1\r\nHost: localhost\r\n")
		go func() {
			go func() {
				for {
					time.Sleep(time.Second)
					if _, err := io.WriteString(conn, "X-Slow: 1\r\n"); err != nil {
						return
					}
				}
			}()
			conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			io.Copy(io.Discard, conn)
			cut <- time.Since(started)
		}()
	}
	during := p.slowest(t, requests)
	p.run("meanwhile", func(t *testing.T) { hardlyWorse(t, before, during) })
	if few {
		return
	}
	var last time.Duration
	for range slow {
		last = max(last, <-cut)
	}
	p.run("cut-off", func(t *testing.T) {
		if rig.Late(last, 25*time.Second) { // the kernel or the test may be late; without a cut-off it takes 30 s
			t.Errorf("the last slow connection was cut off after %v; want 10s", last)
		}
		if mib := p.resident() >> 10; mib > 256 && memoryIsBounded() {
			t.Errorf("modproxy took %d MiB of memory", mib)
		}
	})
}
