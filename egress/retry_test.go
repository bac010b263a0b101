package egress_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/modproxy/modproxy/egress"
)

func TestRetries(t *testing.T) {
	var fails int // failures before the response
	var status int
	var after string
	s := serve(t, "https", "127.0.0.1", nil)
	count := 0
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count++
		if count > fails {
			hello(w, r)
			return
		}
		if status == 0 {
			panic(http.ErrAbortHandler) // no response
		}
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
		w.Write([]byte("the last answer"))
	})
	c := client(t, up())
	soon := time.Now().Add(time.Second).UTC().Format(http.TimeFormat)
	for _, tt := range []struct {
		fails, status int
		after         string
		attempts      int
		want, count   int
	}{
		{1, 500, "", 1, 500, 1},
		{1, 500, "", 0, 500, 1},
		{1, 502, "", 2, 200, 2},
		{2, 502, "", 2, 502, 2},
		{1, 501, "", 3, 501, 1},
		{1, 404, "", 3, 404, 1},
		{1, 429, "", 3, 429, 1},
		{1, 429, "0", 3, 200, 2},
		{1, 503, "", 2, 200, 2},
		{1, 503, soon, 2, 200, 2},
		{1, 503, "3600", 3, 503, 1},
		{1, 503, "4", 3, 503, 1}, // longer than the caller's deadline
		{1, 0, "", 2, 200, 2},
		{1, 0, "", 1, 0, 1},
	} {
		fails, status, after, count = tt.fails, tt.status, tt.after, 0
		name := strconv.Itoa(tt.status) + " " + tt.after
		caller := time.Minute
		if after == "4" {
			caller = 3 * time.Second
		}
		ctx, cancel := context.WithTimeout(t.Context(), caller)
		resp, err := c.Get(ctx, egress.Request{URL: s.at("https", "up.test", "/"), Attempts: tt.attempts})
		got := 0
		if err == nil {
			got = resp.StatusCode
			if body := read(t, resp); got >= 400 && body != "the last answer" {
				t.Errorf("%s: body %q", name, body)
			}
			if resp.Header.Get("Retry-After") != tt.after && got == tt.status {
				t.Errorf("%s: Retry-After is lost", name)
			}
		}
		cancel()
		c.Close() // otherwise package net/http sends the request again itself, on a new connection
		if got != tt.want || count != tt.count {
			t.Errorf("%s, %d attempts: got %d (%v) after %d requests, want %d after %d", name, tt.attempts, got, err, count,
				tt.want, tt.count)
		}
	}
}

func TestUntrustedServersAreNotAskedAgain(t *testing.T) {
	s := serve(t, "https", "127.0.0.1", hello)
	c, err := egress.New(up()) // without the CA
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), egress.Request{URL: s.at("https", "up.test", "/"), Attempts: 5}); err == nil {
		t.Error("an unknown authority is trusted")
	}
	if n := s.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestRefusalsAndLongWaitsAreNotTriedAgain(t *testing.T) {
	resolver := &rebinding{addrs: []string{"127.0.0.1"}}
	target := canary(t)
	c := client(t, egress.Config{Ports: []int{target.port}, Resolver: resolver})
	_, err := c.Get(t.Context(), egress.Request{URL: target.at("https", "a.test", "/"), Attempts: 5})
	if !errors.Is(err, egress.ErrRefused) {
		t.Errorf("got %v, want ErrRefused", err)
	}
	if n := resolver.asked.Load(); n != 1 {
		t.Errorf("the name was looked up %d times", n)
	}
	s := serve(t, "https", "127.0.0.1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	// The caller has no deadline.
	resp, err := client(t, up()).Get(t.Context(), egress.Request{URL: s.at("https", "up.test", "/"), Attempts: 5})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if n := s.requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}
