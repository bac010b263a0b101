package httpx

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A client that reads is redirected to the URL of its request. Other clients receive an error.
func TestHandedOver(t *testing.T) {
	for _, c := range []struct{ method, url, location string }{
		{"GET", "/v1/modules/a/b/c/versions", "./versions"},
		{"HEAD", "/front/v1/x.tar.gz", "./x.tar.gz"},
		{"GET", "/", "./"},
		{"GET", "/-/sumdb/x:y@v1%2F2?a=b&c", "./x:y@v1%2F2?a=b&c"},
		{"GET", "/dir/?q", "./?q"},
		{"POST", "/-/api/x", ""},
	} {
		ctx, end := context.WithCancelCause(t.Context())
		p := &Responder{Requests: new(Requests)}
		waits := p.Handle(0, func(w *Response, r *http.Request, _ *Event) error {
			w.Header().Set("Cache-Control", "immutable")
			if n := p.Requests.Working(); n != 1 {
				t.Errorf("%d requests work", n)
			}
			end(ErrHandedOver)
			<-r.Context().Done()
			return r.Context().Err()
		})
		late := p.Handle(0, func(*Response, *http.Request, *Event) error {
			t.Error("a request that came too late was handled")
			return nil
		})
		for _, handler := range []http.Handler{waits, late} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(c.method, c.url, nil).WithContext(ctx))
			is := w.Result()
			if c.location == "" && is.StatusCode == http.StatusServiceUnavailable {
				continue
			}
			to, err := is.Location()
			if is.StatusCode != http.StatusTemporaryRedirect || err != nil || is.Header.Get("Location") != c.location ||
				is.Header.Get("Cache-Control") != "no-store" || is.Header.Get("Connection") != "close" {
				t.Errorf("%s %s: %d, %v, %v", c.method, c.url, is.StatusCode, is.Header, err)
				continue
			}
			if full := httptest.NewRequest(c.method, c.url, nil).URL.ResolveReference(to).RequestURI(); full != c.url {
				t.Errorf("%s: redirected to %s", c.url, full)
			}
		}
		if n := p.Requests.Running() + p.Requests.Working(); n != 0 {
			t.Errorf("%s: %d requests are left", c.url, n)
		}
	}
}

// A request that only sends is running, and does not work.
func TestOnlySends(t *testing.T) {
	p := &Responder{Requests: new(Requests)}
	is := func(what string, running, working int) {
		t.Helper()
		if p.Requests.Running() != running || p.Requests.Working() != working {
			t.Errorf("%s: %d running, %d working", what, p.Requests.Running(), p.Requests.Working())
		}
	}
	p.Handle(0, func(w *Response, _ *http.Request, _ *Event) error {
		is("at first", 1, 1)
		w.OnlySends()
		w.OnlySends()
		is("sends", 1, 0)
		return errors.New("x")
	})(httptest.NewRecorder(), httptest.NewRequest("GET", "/x", nil))
	is("afterwards", 0, 0)
}

// A connection is busy until it waits for another request.
func TestBusy(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	b := NewListener(listener.(*net.TCPListener), 2)
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := b.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		state http.ConnState
		busy  int
	}{{http.StateNew, 1}, {http.StateActive, 1}, {http.StateIdle, 0}, {http.StateActive, 1}} {
		b.ConnState(c, step.state)
		if step.state == http.StateActive { // nothing but the state counts
			c.(*conn).accepted = time.Now().Add(-firstRequest)
		}
		if n := b.Busy(); n != step.busy {
			t.Errorf("%v: %d busy, want %d", step.state, n, step.busy)
		}
	}
	c.Close()
	if n := b.Busy(); n != 0 {
		t.Errorf("closed: %d busy", n)
	}
	silent, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if c, err = b.Accept(); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.(*conn).accepted = time.Now().Add(-firstRequest)
	if n := b.Busy(); n != 0 {
		t.Errorf("without a request: %d busy", n)
	}
}
