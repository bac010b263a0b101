package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/proxy"
)

// damaged returns an unreadable package so many times.
type damaged struct {
	modproxy.Registry
	times int
}

// unreadable ends every read with an error.
type unreadable struct{ modproxy.Body }

func (unreadable) Read([]byte) (int, error) {
	return 0, fmt.Errorf("%w: damaged", modproxy.ErrUnavailable)
}

// streamed is a package that is not in memory.
type streamed struct{ modproxy.Body }

func (d *damaged) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	m, version := v.Address, v.FullVersion()
	p, err := d.Registry.Package(ctx, m.At(version))
	if err != nil {
		return nil, err
	}
	if p.Body = (streamed{p.Body}); d.times > 0 {
		d.times--
		p.Body = unreadable{p.Body}
	}
	return p, nil
}

// A damaged package is requested once more, so that a client that requests a part of it, or its headers, gets the replaced package.
// No header describes a package that remains damaged.
func TestDamagedPackage(t *testing.T) {
	for name, ask := range map[string]struct {
		method string
		header []string
		good   int
	}{
		"HEAD":      {http.MethodHead, nil, http.StatusOK},
		"range":     {http.MethodGet, []string{"Range", "bytes=0-9"}, http.StatusPartialContent},
		"the rest":  {http.MethodGet, []string{"Range", "bytes=10-"}, http.StatusPartialContent},
		"condition": {http.MethodGet, []string{"If-None-Match", "*"}, http.StatusNotModified},
		"other":     {http.MethodGet, []string{"If-None-Match", `"other"`}, http.StatusOK},
	} {
		for times, want := range []int{ask.good, ask.good, http.StatusBadGateway} {
			h := newHandler(t, func(c *proxy.Config, s *scripted) {
				c.Registry = &damaged{c.Registry, times}
			})
			r := httptest.NewRequest(ask.method, archive, nil)
			if ask.header != nil {
				r.Header.Set(ask.header[0], ask.header[1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s, damaged %d times: %d, want %d", name, times, w.Code, want)
			}
			if etag := w.Header().Get("Etag"); want >= 400 && etag != "" {
				t.Errorf("%s: an error has the tag %s", name, etag)
			}
		}
	}
}
