package proxy_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/observe"
	"github.com/modproxy/modproxy/proxy"
	"github.com/modproxy/modproxy/store/storetest"
)

// nowhere is a writer that stores the header and the status only.
type nowhere struct {
	header http.Header
	status int
}

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) WriteHeader(status int)      { n.status = status }
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }

// SetWriteDeadline is for [http.ResponseController].
func (n *nowhere) SetWriteDeadline(time.Time) error { return nil }

// counted returns a registry whose downloads are counted.
func counted(next modproxy.Registry) modproxy.Registry {
	return &observe.Registry{Next: next, Observers: []observe.Observer{history.NewDownloads(new(storetest.Memory).Records(), nil)}}
}

// BenchmarkServeHTTP answers requests from memory.
func BenchmarkServeHTTP(b *testing.B) {
	h := describing(b, &told{}, func(c *proxy.Config) { c.Registry = counted(c.Registry) })
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
			w := &nowhere{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}
		})
	}
}

// held is a registry whose answers are in memory. Packages have 180 KB.
type held struct {
	modproxy.Registry
	versions *modproxy.Versions
}

func (r *held) Versions(ctx context.Context, m modproxy.Address) (_ *modproxy.Versions, err error) {
	if r.versions == nil {
		r.versions, err = r.Registry.Versions(ctx, m)
	}
	return r.versions, err
}

var of180KB = make([]byte, 180_000)

type heldPackage struct{ bytes.Reader }

func (*heldPackage) Verify(context.Context) error { return nil }

func (*heldPackage) Close() error { return nil }

func (*held) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	p := &heldPackage{}
	p.Reset(of180KB)
	return &modproxy.Package{Body: p, Size: int64(len(of180KB))}, nil
}

// BenchmarkServeKnown answers clients with a token or a signed path, and logs each request.
func BenchmarkServeKnown(b *testing.B) {
	wrap := func(r modproxy.Registry) modproxy.Registry { return counted(&held{Registry: r}) }
	h, tokens, _ := guarded(b, wrap, func(c *proxy.Config) {
		encoder := httpx.LogEncoder(zapcore.EncoderConfig{MessageKey: "msg", TimeKey: "time", EncodeTime: zapcore.ISO8601TimeEncoder})
		c.Log = zap.New(zapcore.NewCore(encoder, zapcore.AddSync(io.Discard), zapcore.InfoLevel))
	})
	for _, c := range []struct{ name, path, token string }{
		{"versions", base + "/versions", "Bearer " + tokens["acme"]},
		{"download", base + "/1.1.0/download", "Bearer " + tokens["acme"]},
		{"package", signedPath(b, h, tokens["acme"]), ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := httptest.NewRequest("GET", c.path, nil)
			r.Header.Set("Accept-Encoding", "gzip")
			r.Header.Set("User-Agent", "Terraform/1.11.4")
			if c.token != "" {
				r.Header.Set("Authorization", c.token)
			}
			w := &nowhere{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}
			if w.status >= 300 {
				b.Errorf("status %d", w.status)
			}
		})
	}
}
