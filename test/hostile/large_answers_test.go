//go:build linux

package hostile_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// countingWriter counts sent bytes.
type countingWriter struct {
	io.Writer
	n *atomic.Int64
}

func (c countingWriter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// hugeAnswers are invalid versions documents.
var hugeAnswers = map[string]func(w io.Writer, r http.ResponseWriter){
	"a-million-versions": func(w io.Writer, _ http.ResponseWriter) {
		io.WriteString(w, `{"modules":[{"versions":[{"version":"0.0.0"}`)
		for i := range 1_000_000 {
			if _, err := fmt.Fprintf(w, `,{"version":"1.0.%d"}`, i); err != nil {
				return
			}
		}
		io.WriteString(w, `]}]}`)
	},
	"more-versions-than-allowed": func(w io.Writer, _ http.ResponseWriter) {
		io.WriteString(w, `{"modules":[{"versions":[{"version":"0"}`+strings.Repeat(`,{"version":"1"}`, 200_000)+`]}]}`)
	},
	"two-hundred-megabytes": func(w io.Writer, _ http.ResponseWriter) {
		io.WriteString(w, `{"modules":[{"versions":[{"version":"9.9.9"}]}],"padding":"`)
		for range 200 {
			if _, err := io.WriteString(w, strings.Repeat("A", 1_000_000)); err != nil {
				return
			}
		}
		io.WriteString(w, `"}`)
	},
	"endless": func(w io.Writer, _ http.ResponseWriter) { endless(w, `{"modules":[`, `{},`) },
	"deep":    func(w io.Writer, _ http.ResponseWriter) { io.WriteString(w, strings.Repeat(`{"modules":[`, 100_000)) },
	"deep-entry": func(w io.Writer, _ http.ResponseWriter) {
		io.WriteString(w, `{"modules":[{"versions":[{"version":"9.9.9","root":`+strings.Repeat(`[`, 100_000)+strings.Repeat(`]`, 100_000)+`}]}]}`)
	},
	"gzip-bomb": func(w io.Writer, r http.ResponseWriter) {
		r.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		endless(z, `{"modules":[`, strings.Repeat(" ", 1<<20))
	},
	"huge-number": func(w io.Writer, _ http.ResponseWriter) {
		io.WriteString(w, `{"modules":[{"versions":[{"version":`+strings.Repeat("9", 1<<20)+`}]}]}`)
	},
	"huge-headers": func(w io.Writer, r http.ResponseWriter) {
		r.Header().Set("X-Padding", strings.Repeat("A", 1<<20))
		io.WriteString(w, `{}`)
	},
}

// An answer that is too large is read only until that is clear, is refused with a clear message, and does not affect cached answers.
func TestHugeAnswers(t *testing.T) {
	p := startOwn(t, strings.Replace(ordinary, "\nlog:", "\ncache: {fresh: 1ms}\nlog:", 1))
	few := shorter(t, "answers of less than 8 MiB only")
	for name, huge := range hugeAnswers {
		if few && slices.Contains([]string{"a-million-versions", "more-versions-than-allowed", "two-hundred-megabytes", "endless", "huge-headers"}, name) {
			continue
		}
		p.run(name, func(t *testing.T) {
			var trouble atomic.Bool
			var sent atomic.Int64
			g := located("https://src.test/archives/good.tar.gz")
			answer := func(w http.ResponseWriter) {
				w.Header().Set("Content-Type", "application/json")
				huge(countingWriter{w, &sent}, w)
			}
			g.versions = func(w http.ResponseWriter, r *http.Request) {
				if trouble.Load() {
					answer(w)
					return
				}
				io.WriteString(w, `{"modules":[{"versions":[{"version":"1.0.0"}]}]}`)
			}
			g.download = func(w http.ResponseWriter, r *http.Request, _ string) { answer(w) }
			host := g.host(t)
			kept := module{host, "case", "kept", "aws"}
			if a := p.ask(http.MethodGet, kept.path("versions")); a.Status != http.StatusOK {
				t.Fatalf("%d: %s", a.Status, a.Said())
			}
			trouble.Store(true)
			for range 3 {
				a := p.ask(http.MethodGet, kept.path("versions"))
				if a.Status != http.StatusOK || len(a.Body) > 1000 || !strings.Contains(string(a.Body), `"1.0.0"`) {
					t.Errorf("what was known: %d: %.300q", a.Status, a.Body)
				}
				time.Sleep(20 * time.Millisecond)
			}
			cold := module{host, "case", "cold", "aws"}
			for _, path := range []string{"versions", "1.0.0/download"} {
				a := p.ask(http.MethodGet, cold.path(path))
				if a.Status < 400 || a.Status == http.StatusNotFound || rig.Late(a.Took, soonEnough) {
					t.Errorf("%s: %d after %v: %.300q", path, a.Status, a.Took, a.Body)
				}
			}
			// Two or three requests of 8 MiB each, and data on its way.
			if n := sent.Load(); n > 64<<20 {
				t.Errorf("%d bytes were read", n)
			}
		})
	}
}

// Many documents just below the limit are not in memory at the same time, neither when they arrive nor when they are served again.
func TestManyLargeAnswers(t *testing.T) {
	if shorter(t, "not many large documents, which takes a minute and gigabytes of memory") {
		return
	}
	p := startOwn(t, ordinary)
	entry := `,{"version":"1.0.0","root":"` + strings.Repeat("A", 900) + `"}`
	document := `{"modules":[{"versions":[{"version":"0"}` + strings.Repeat(entry, 7<<20/len(entry)) + `]}]}`
	host := (&registry{versions: func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, document) }}).host(t)
	for _, round := range []string{"cold", "kept"} {
		p.run(round, func(t *testing.T) {
			var group sync.WaitGroup
			for i := range 64 {
				group.Go(func() {
					m := module{host, "case", fmt.Sprintf("m%d", i), "aws"}
					a, err := p.try(t.Context(), http.MethodGet, m.path("versions"), "Accept-Encoding", "gzip")
					if err != nil || a.Status != http.StatusOK && a.Status != http.StatusServiceUnavailable {
						t.Errorf("%d, %v: %s", a.Status, err, a.Said())
					}
				})
			}
			group.Wait()
			if round == "cold" {
				p.settled(p.before) // downloads continue without their clients
			}
			mib := p.resident() >> 10
			t.Logf("modproxy took %d MiB of memory", mib)
			if mib > maxResident>>10 && memoryIsBounded() {
				t.Errorf("modproxy took %d MiB of memory", mib)
			}
		})
	}
}

// A client may send any query.
func TestHugeQueries(t *testing.T) {
	p := start(t, ordinary)
	m := module{"up-a.test", "good", "archive", "aws"}
	for name, query := range map[string]string{
		"many":      strings.Repeat("a=1&", 12_000),
		"too-many":  strings.Repeat("a=1&", 100_000),
		"semicolon": strings.Repeat(";", 50_000),
		"brackets":  "a" + strings.Repeat("[x]", 10_000) + "=1",
		"percent":   strings.Repeat("%25", 15_000),
		"bad":       "%zz&%&=&a=%00%0a",
		"get":       "terraform-get=1&archive=zip&checksum=md5:0",
	} {
		p.run(name, func(t *testing.T) {
			for _, path := range []string{m.path("versions"), m.path("1.0.0/download"), m.archive("1.0.0"), "/.well-known/terraform.json"} {
				a, err := p.send("GET " + path + "?" + query + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
				tooLarge := a.Status == http.StatusRequestHeaderFieldsTooLarge // the rest is not read
				if !tooLarge && (err != nil || a.Status >= 300) {
					t.Errorf("%s: %d, %v: %.300q", path, a.Status, err, a.Body)
				}
			}
		})
	}
	// The query of a location is read as clients read it, within bounds.
	for name, query := range map[string]string{"many": strings.Repeat("a=1&", 900), "too-many": strings.Repeat("a=1&", 100_000)} {
		p.run("location-"+name, func(t *testing.T) {
			m := module{located("https://src.test/archives/good.tar.gz?" + query).host(t), "case", "query", "aws"}
			if a := p.install(m, "1.0.0"); (a.Status == http.StatusOK) != (name == "many") {
				t.Errorf("%d: %.300q", a.Status, a.Body)
			}
		})
	}
}
