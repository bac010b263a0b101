//go:build linux

package hostile_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// Clients give up after ten seconds. A later answer is useless.
const soonEnough = 9 * time.Second

// brief returns a timeout that a program can reach: d, or ten times the duration of an installation here if that is longer.
func brief(t *testing.T, d time.Duration) time.Duration {
	t.Helper()
	p := start(t, ordinary)
	began := time.Now()
	p.mustInstall(atGit(t, served(goodPack())), "1.0.0")
	return max(d, 10*time.Since(began).Round(time.Second))
}

// slow is a stranger that sends a byte a second if it drips, and otherwise nothing, until the test ends.
func slow(t *testing.T, drips bool) http.HandlerFunc {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	return func(w http.ResponseWriter, r *http.Request) {
		if drips {
			w.Header().Set("Content-Type", "application/json")
		}
		for {
			if drips {
				io.WriteString(w, " ")
				w.(http.Flusher).Flush()
			}
			select {
			case <-over:
				panic(http.ErrAbortHandler)
			case <-r.Context().Done():
				return
			case <-time.After(time.Second):
			}
		}
	}
}

// silent is the address of a server that accepts connections and sends nothing.
func silent(t *testing.T) string {
	l, err := net.Listen("tcp", goodNetwork+"67:443")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
		}
	}()
	return goodNetwork + "67"
}

// If a registry does not answer properly, clients get answers in time, from cached data if there is some.
func TestSlowRegistries(t *testing.T) {
	p := startOwn(t, strings.Replace(ordinary, "\nlog:", "\ncache: {fresh: 1ms, missing: 1s}\nlog:", 1), hedging)
	world.names.set("silent.evil.test", silent(t))
	few := shorter(t, "no registry that drips, and none that says nothing at all")
	for name, trouble := range map[string]http.HandlerFunc{
		"drips": slow(t, true), "hangs": slow(t, false),
		"cut":       func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
		"status500": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) },
		"status503": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) },
		"html":      func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>maintenance</html>") },
		"empty":     func(w http.ResponseWriter, r *http.Request) {},
		"nothing":   func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "{}") },
	} {
		if few && name == "drips" {
			continue
		}
		p.run(name, func(t *testing.T) {
			var inTrouble atomic.Bool
			well := located("https://src.test/archives/good.tar.gz")
			host := (&registry{
				versions: func(w http.ResponseWriter, r *http.Request) {
					if inTrouble.Load() {
						trouble(w, r)
						return
					}
					io.WriteString(w, `{"modules":[{"versions":[{"version":"1.0.0"}]}]}`)
				},
				download: func(w http.ResponseWriter, r *http.Request, version string) {
					if inTrouble.Load() {
						trouble(w, r)
						return
					}
					well.download(w, r, version)
				},
			}).host(t)
			kept, cold := module{host, "case", "kept", "aws"}, module{host, "case", "cold", "aws"}
			p.mustInstall(kept, "1.0.0")
			if a := p.ask(http.MethodGet, kept.path("versions")); a.Status != http.StatusOK {
				t.Fatalf("%d: %s", a.Status, a.Said())
			}
			inTrouble.Store(true)
			for range 3 {
				a := p.ask(http.MethodGet, kept.path("versions"))
				if a.Status != http.StatusOK || rig.Late(a.Took, 2*time.Second) || !strings.Contains(string(a.Body), "1.0.0") {
					t.Errorf("what was known: %d after %v: %s", a.Status, a.Took, a.Said())
				}
				if a := p.ask(http.MethodGet, kept.archive("1.0.0")); a.Status != http.StatusOK {
					t.Errorf("what is kept: %d: %s", a.Status, a.Said())
				}
				time.Sleep(5 * time.Millisecond)
			}
			p.inTime(cold)
		})
	}
	if few {
		return
	}
	p.run("silent", func(t *testing.T) {
		p.inTime(module{"silent.evil.test", "case", "silent", "aws"})
	})
}

// inTime sends all requests about a module at once. The answers must arrive soon enough, and none may say that the module does not exist.
func (p *proxy) inTime(m module) {
	var group sync.WaitGroup
	for _, path := range []string{"versions", "1.0.0/download", "2.0.0/download"} {
		group.Go(func() {
			a := p.ask(http.MethodGet, m.path(path))
			if rig.Late(a.Took, soonEnough) || a.Status < 400 || a.Status == http.StatusNotFound {
				p.t.Errorf("%s: %d after %v: %s", path, a.Status, a.Took, a.Said())
			}
		})
	}
	group.Wait()
}

// A registry that sent Retry-After receives no request before that time.
func TestRetryAfterIsHeeded(t *testing.T) {
	p := startOwn(t, strings.Replace(ordinary, "\nlog:", "\ncache: {fresh: 1ms, missing: 1ms}\nlog:", 1))
	const pause = 30 * time.Second
	watched := pause - 2*time.Second
	if shorter(t, "a pause of 30s is watched for half a second") {
		watched = time.Second / 2
	}
	for name, status := range map[string]int{"too-many": 429, "unavailable": 503} {
		for form, header := range map[string]func() string{
			"seconds": func() string { return fmt.Sprint(int(pause.Seconds())) },
			"date":    func() string { return time.Now().Add(pause).UTC().Format(http.TimeFormat) },
		} {
			p.run(name+"-"+form, func(t *testing.T) {
				watched := watched
				if form == "date" {
					watched = min(watched, 5*time.Second)
				}
				g := located("https://src.test/archives/good.tar.gz")
				g.versions = func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Retry-After", header())
					w.WriteHeader(status)
				}
				host := g.host(t)
				asked := func() int { return len(world.strangers.at(host)) }
				p.ask(http.MethodGet, module{host, "case", "m0", "aws"}.path("versions"))
				before := asked()
				for i, end := 0, time.Now().Add(watched); time.Now().Before(end); i++ {
					m := module{host, "case", fmt.Sprintf("m%d", i%5), "aws"}
					for _, path := range []string{"versions", "1.0.0/download"} {
						a := p.ask(http.MethodGet, m.path(path))
						if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || rig.Late(a.Took, time.Second) {
							t.Fatalf("%s: %d after %v, Retry-After %q; want 503 at once, and when to come back", path, a.Status, a.Took, a.Header.Get("Retry-After"))
						}
					}
					time.Sleep(100 * time.Millisecond)
				}
				if now := asked(); now != before {
					t.Errorf("asked %d times in the pause", now-before)
				}
			})
		}
	}
}

// Slow packages are given up, and waiting clients are told why.
func TestSlowPackages(t *testing.T) {
	few := shorter(t, "archives only, and not the least rate, which takes 30s")
	timeout := brief(t, 3*time.Second)
	p := startOwn(t, strings.Replace(ordinary, "timeout: 1m", "timeout: "+timeout.String(), 1), hedging)
	for name, serve := range map[string]http.HandlerFunc{"drips": slow(t, true), "hangs": slow(t, false)} {
		for _, file := range []string{"x.zip", "x"} {
			if few && file == "x" {
				continue
			}
			p.run(name+"-"+file, func(t *testing.T) {
				m := atArchive(t, file, serve)
				if a := p.ask(http.MethodGet, m.path("1.0.0/download")); rig.Late(a.Took, soonEnough) || a.Status != http.StatusNoContent && a.Status != http.StatusServiceUnavailable {
					t.Errorf("download: %d after %v", a.Status, a.Took)
				}
				started := time.Now()
				p.refuse(t, m, "1.0.0", "not done within "+timeout.String())
				if took := time.Since(started); rig.Late(took, soonEnough) {
					t.Errorf("given up after %v; want %v", took, timeout)
				}
			})
		}
	}
	if few {
		return
	}
	q := startOwn(t, ordinary)
	q.run("least-rate", func(t *testing.T) {
		started := time.Now()
		q.refuse(t, atArchive(t, "x.zip", slow(t, true)), "1.0.0", `too slow`)
		if took := time.Since(started); rig.Late(took, 45*time.Second) {
			t.Errorf("given up after %v; want 30s", took)
		}
	})
}
