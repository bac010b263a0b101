//go:build linux

package hostile_test

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

const limited = asking + "limits: {connections: 60, requests: 4, rate: 20}\n"

// A client over its limit is told when to retry, and can; others are not affected. After an overload by all clients, all recover.
func TestLimitsAreHitAndRecover(t *testing.T) {
	p := startOwn(t, limited)
	loud := p.token("loud", "--scope", "*")
	quiet := p.token("quiet", "--scope", "*")
	p.ask(http.MethodGet, private.path("versions"), "Authorization", quiet)
	p.run("rate", func(t *testing.T) {
		var group sync.WaitGroup
		group.Go(func() { tooFast(t, p, loud) })
		group.Go(func() { tooFast(t, p, "Bearer mp_x") }) // the rate limit of an address
		for range 10 {
			if a := p.ask(http.MethodGet, private.path("versions"), "Authorization", quiet); a.Status != http.StatusOK {
				t.Errorf("another client: %d %s", a.Status, a.Said())
			}
		}
		group.Wait()
	})
	p.run("requests-at-a-time", func(t *testing.T) { tooMany(t, p, quiet) })
	p.run("connections", func(t *testing.T) { tooOpen(t, p, quiet) })
}

// later checks for an answer that asks to retry after some seconds.
func later(t *testing.T, a rig.Answer) time.Duration {
	t.Helper()
	seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if a.Status != http.StatusServiceUnavailable || err != nil || seconds < 1 || seconds > 30 {
		t.Errorf("%d with Retry-After %q: %s", a.Status, a.Header.Get("Retry-After"), a.Said())
	}
	return time.Duration(seconds) * time.Second
}

// tooFast sends more requests than one client may.
func tooFast(t *testing.T, p *proxy, loud string) {
	path := private.path("versions")
	served := p.ask(http.MethodGet, path, "Authorization", loud).Status
	answers := make(chan rig.Answer, 120)
	var group sync.WaitGroup
	began := time.Now()
	for range cap(answers) {
		group.Go(func() { answers <- p.ask(http.MethodGet, path, "Authorization", loud) })
	}
	group.Wait()
	most := 20 + int(20*time.Since(began).Seconds()) // allowed in the time that the requests took
	close(answers)
	refused, wait := 0, time.Duration(0)
	for a := range answers {
		if a.Status != served {
			wait = max(wait, later(t, a))
			refused++
		}
	}
	if refused < min(20, cap(answers)-most) || refused == cap(answers) {
		t.Errorf("%d of %d were told to come back", refused, cap(answers))
	}
	time.Sleep(wait)
	if a := p.ask(http.MethodGet, path, "Authorization", loud); a.Status != served {
		t.Errorf("after %v: %d %s", wait, a.Status, a.Said())
	}
}

// tooMany lets as many clients wait for a package as may be answered at a time. The next is told to retry, and is answered after one of
// them.
func tooMany(t *testing.T, p *proxy, quiet string) {
	release := make(chan bool)
	data := tarGz(t, plainFile)
	m := atArchive(t, "x.tar.gz", func(w http.ResponseWriter, r *http.Request) {
		<-release
		w.Write(data)
	})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			var a rig.Answer
			eventually(func() bool { // a client that arrives during the check retries
				a = p.ask(http.MethodGet, m.archive("1.0.0"), "Authorization", quiet)
				return a.Status != http.StatusServiceUnavailable
			})
			if a.Status != http.StatusOK {
				t.Errorf("who waited for the package: %d %s", a.Status, a.Said())
			}
		})
	}
	told := func() bool { // not yet while some of the first four are not there
		time.Sleep(50 * time.Millisecond) // within the rate limit
		a := p.ask(http.MethodGet, private.path("versions"), "Authorization", quiet)
		if a.Status != http.StatusOK {
			later(t, a)
		}
		return a.Status != http.StatusOK
	}
	if !eventually(told) {
		t.Error("a fifth request was answered")
	}
	if code := p.status("/-/healthz"); code != http.StatusOK {
		t.Errorf("meanwhile: /-/healthz answered %d", code)
	}
	close(release)
	group.Wait()
	if a := p.ask(http.MethodGet, private.path("versions"), "Authorization", quiet); a.Status != http.StatusOK {
		t.Errorf("afterwards: %d %s", a.Status, a.Said())
	}
}

// tooOpen opens the maximum number of connections without requests. The next one waits until one of them ends, at the latest when it is cut
// off.
func tooOpen(t *testing.T, p *proxy, quiet string) {
	var idle []net.Conn
	for range 60 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET / HTTP/1.1\r\n")
		idle = append(idle, conn)
	}
	answered := make(chan rig.Answer, 1)
	started := time.Now()
	go func() { answered <- p.ask(http.MethodGet, private.path("versions"), "Authorization", quiet) }()
	select {
	case a := <-answered:
		t.Errorf("one more connection was answered: %d", a.Status)
		return
	case <-time.After(500 * time.Millisecond):
	}
	if shorter(t, "idle connections are closed, instead of waited for until they are cut off") {
		for _, conn := range idle {
			conn.Close()
		}
	}
	if a := <-answered; a.Status != http.StatusOK || rig.Late(time.Since(started), 15*time.Second) {
		t.Errorf("%d %s after %v", a.Status, a.Said(), time.Since(started))
	}
}
