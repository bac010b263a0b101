package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modproxy/modproxy/downloads"
	"github.com/modproxy/modproxy/proxy"
)

// nowhere is a writer that keeps nothing but the header.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) WriteHeader(int)             {}
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkServeHTTP answers requests from what is in memory.
func BenchmarkServeHTTP(b *testing.B) {
	h := describing(b, &told{}, func(c *proxy.Config) { c.Registry = &downloads.Registry{Next: c.Registry} })
	etag := get(h, base+"/versions").Header.Get("Etag")
	for _, c := range []struct{ name, method, path, header, value string }{
		{"versions", "GET", base + "/versions", "Accept-Encoding", "gzip"},
		{"unchanged", "GET", base + "/versions", "If-None-Match", etag},
		{"details", "GET", base + "/1.1.0", "Accept-Encoding", "gzip"},
		{"download", "GET", base + "/1.1.0/download", "", ""},
		{"package", "GET", archive, "", ""},
		{"package head", "HEAD", archive, "", ""},
		{"package range", "GET", archive, "Range", "bytes=0-9"},
		{"health", "GET", "/-/healthz", "", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := httptest.NewRequest(c.method, c.path, nil)
			if c.header != "" {
				r.Header.Set(c.header, c.value)
			}
			w := &nowhere{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}
		})
	}
}
