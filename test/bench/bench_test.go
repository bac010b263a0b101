package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/registrytest"
)

func TestParseWrk(t *testing.T) {
	const good = `Running 1s test @ http://127.0.0.1:1/versions
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     4.16ms    5.20ms  61.24ms   88.11%
    Req/Sec    20.79k     3.12k   26.00k    70.00%
  Latency Distribution
     50%    2.23ms
     75%    5.64ms
     90%   10.64ms
     99%   14.50ms
  20701 requests in 1.00s, 422.13MB read
Requests/sec:  20688.31
Transfer/sec:    421.87MB
`
	want := asked{requests: 20701, perSec: 20688.31, p50: 2230 * time.Microsecond, p99: 14500 * time.Microsecond}
	if got, err := parseWrk(good); err != nil || got != want {
		t.Errorf("parseWrk = %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{
		"",
		good + "  Non-2xx or 3xx responses: 3\n",
		good + "  Socket errors: connect 0, read 1, write 0, timeout 0\n",
		"  0 requests in 1.00s, 0B read\n",
	} {
		if got, err := parseWrk(bad); err == nil {
			t.Errorf("parseWrk(%q) = %+v; want an error", bad, got)
		}
	}
}

// Data that shares a line is sent in sequence, and an idle line saves up no bandwidth.
func TestPace(t *testing.T) {
	p := &pace{rate: 1000}
	begin := time.Unix(0, 0)
	for i, step := range []struct {
		now  time.Duration
		n    int
		want time.Duration
	}{
		{0, 500, 500 * time.Millisecond},
		{0, 500, time.Second},
		{200 * time.Millisecond, 100, 1100 * time.Millisecond},
		{5 * time.Second, 1000, 6 * time.Second},
	} {
		if got := p.take(begin.Add(step.now), step.n).Sub(begin); got != step.want {
			t.Errorf("step %d: sent at %v; want %v", i, got, step.want)
		}
	}
}

// A relay changes no data, and passes on the end of one direction.
func TestRelay(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		all, _ := io.ReadAll(conn) // until the client has ended
		slices.Reverse(all)
		conn.Write(all)
	}()
	r, err := listenRelay(newLine(2*time.Millisecond, 0, 1e9))
	if err != nil {
		t.Fatal(err)
	}
	r.serve(server.Addr().String())
	client, err := net.Dial("tcp", r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	sent := []byte(noise(rand.New(rand.NewPCG(1, 1)), 3<<20))
	client.Write(sent)
	client.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(client)
	slices.Reverse(got)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back, %v; want the %d that were sent", len(got), err, len(sent))
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
}

// A generated repository is always the same, and git finds no error in it.
func TestRepository(t *testing.T) {
	var ids [][]string
	for range 2 {
		r := &repository{name: "small", files: 12, commits: 9, seed: 7, versions: []string{"1.0.0", "1.1.0", "2.0.0"}}
		dir := t.TempDir()
		if err := r.write(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		if _, err := git(t.Context(), nil, "-C", dir+"/acme/small.git", "fsck", "--strict"); err != nil {
			t.Error(err)
		}
		log, err := git(t.Context(), nil, "-C", dir+"/acme/small.git", "log", "--format=%H", "v2.0.0")
		if n := bytes.Count(log, []byte("\n")); err != nil || n != 9 || !bytes.HasPrefix(log, []byte(r.ids[2])) {
			t.Errorf("the history of v2.0.0 is\n%s, %v; want 9 commits from %s on", log, err, r.ids[2])
		}
		ids = append(ids, r.ids)
	}
	if !slices.Equal(ids[0], ids[1]) || slices.Contains(ids[0], "") || len(ids[0]) != 3 {
		t.Errorf("its versions are %q and %q", ids[0], ids[1])
	}
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"-parts", "client,warm"}, {"-n", "0"}, {"-duration", "1ms"}, {"now"}, {"-x"}} {
		if s, err := parseFlags(args, io.Discard); !errors.As(err, new(misuse)) {
			t.Errorf("parseFlags(%q) = %+v, %v; want misuse", args, s, err)
		}
	}
	s, err := parseFlags([]string{"-parts=hot", "-proxy-env", "GOMAXPROCS=1,GOGC=50", "-quick"}, io.Discard)
	if err != nil || !slices.Equal(s.parts, []string{"hot"}) || len(s.proxyEnv) != 2 || s.runs != 1 {
		t.Errorf("parseFlags = %+v, %v", s, err)
	}
}

// A new connection over a line takes the configured time, with TLS, too: data before the first request costs nothing more. Each request
// takes a round trip.
func TestConnect(t *testing.T) {
	const trip, connect = 60 * time.Millisecond, 150 * time.Millisecond
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	for _, price := range []time.Duration{connect, 0} {
		r, err := listenRelay(newLine(trip, price, 1e9))
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		r.serve(server.Listener.Addr().String())
		var first, second time.Duration // the shortest of several, because the machine may be busy
		for range 5 {
			client := &http.Client{Transport: server.Client().Transport.(*http.Transport).Clone()}
			for _, shortest := range []*time.Duration{&first, &second} {
				begin := time.Now()
				answer, err := client.Get("https://" + r.Addr)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
				if took := time.Since(begin); *shortest == 0 || took < *shortest {
					*shortest = took
				}
			}
			client.CloseIdleConnections()
		}
		if least := price + trip; first < least || first >= least+trip {
			t.Errorf("a connection takes %v: a first question took %v; want %v and a little", price, first, least)
		}
		if second < trip || second >= 2*trip {
			t.Errorf("a connection takes %v: a second question took %v; want %v and a little", price, second, trip)
		}
	}
}

// The nested configuration has the calls and packages that the report says.
func TestNested(t *testing.T) {
	calls, seen := 0, map[string]bool{}
	var walk func(level, i int)
	walk = func(level, i int) {
		calls++
		name := fmt.Sprint(nestedLevels[level].name, i)
		seen[name] = true
		for _, next := range nestedCalls(level, i) {
			n, err := strconv.Atoi(strings.TrimPrefix(next, nestedLevels[level+1].name))
			if err != nil {
				t.Fatal(err)
			}
			walk(level+1, n)
		}
	}
	for i := range nestedTop() {
		walk(0, i)
	}
	if calls != mirrorCalls || len(seen) != mirrorPackages || len(nestedRepositories()) != mirrorPackages {
		t.Errorf("%d calls of %d packages in %d repositories; want %d of %d",
			calls, len(seen), len(nestedRepositories()), mirrorCalls, mirrorPackages)
	}
}

// Every process of git is counted, including those that git starts.
func TestCountGit(t *testing.T) {
	c, err := countGit(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		// It runs git-upload-pack.
		cmd := exec.Command("git", "ls-remote", t.TempDir())
		cmd.Env = append(registrytest.GitEnvironment(), c.env...)
		cmd.Path = filepath.Join(filepath.Dir(c.file), "git")
		_ = cmd.Run() // the repository does not exist
		if n, err := c.count(); n < 2 || err != nil {
			t.Errorf("%d processes, %v; want at least two", n, err)
		}
	}
	if n, err := c.count(); n != 0 || err != nil {
		t.Errorf("%d processes, %v; want none any more", n, err)
	}
}

// A difference that may be chance is neither met nor missed.
func TestBetween(t *testing.T) {
	var values []float64
	for i := range 30 {
		values = append(values, 1+float64(i)/100)
	}
	all := between(values)
	if all.Median < 1.144 || all.Median > 1.146 || all.Low != 1.09 || all.High != 1.2 || all.Turns != 30 {
		t.Errorf("between = %+v; want 1.145, from 1.09 to 1.2", all)
	}
	for most, want := range map[float64]string{1.08: "MISSED", 1.09: "met", 1.5: "met"} {
		if got := all.verdict(most); got != want {
			t.Errorf("%v is at most %v: %s; want %s", all, most, got, want)
		}
	}
	if got := between(values[:3]).verdict(0.5); got != "too few turns" {
		t.Errorf("three turns: %s", got)
	}
}

// The floor of the line is the sum of its round trips, connections and bytes.
func TestFloor(t *testing.T) {
	modules := []module{{"acme", "a", "1.0.0"}, {"acme", "a", "2.0.0"}, {"acme", "b", "1.0.0"}}
	ways := []*way{
		{name: wayRegistry, modules: modules, seconds: []float64{4}},
		{name: coldBy[byCommit], modules: modules, upstream: map[string]int{"KB": 4000}},
	}
	const questions, bytes = 8 * 0.08, 4e6 / 20e6
	for connect, want := range map[time.Duration]float64{0: questions + bytes, newConnection: questions + bytes + 2*0.16} {
		text := fmt.Sprintf("8 questions one after the other, 2 new connections and 4.0 MB take %.2f s, %.2f of", want, want/4)
		if got := floor(ways, connect); !strings.Contains(got, text) {
			t.Errorf("%v: %s; want %s", connect, got, text)
		}
	}
}
