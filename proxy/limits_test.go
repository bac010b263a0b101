package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// wait is how long err tells to wait; 0 if it does not.
func wait(err error) time.Duration {
	var later *modproxy.RetryLater
	if !errors.As(err, &later) {
		return 0
	}
	return time.Until(later.After)
}

// Requests beyond the bound wait for their turn: long for a package, whose client
// would not come back, and else no longer than its client has time for.
func TestRequestsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(Limits{Requests: 1})
		if err := a.enter(t.Context(), "", patience); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := a.enter(t.Context(), "", patience); wait(err) != time.Second || !errors.Is(err, errBusy) || time.Since(start) != patience {
			t.Errorf("after %v: %v, to wait %v", time.Since(start), err, wait(err))
		}
		go func() {
			time.Sleep(20 * time.Second)
			a.turns.Give("")
		}()
		if err := a.enter(t.Context(), "", packagePatience); err != nil {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		gone, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := a.enter(gone, "", packagePatience); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a client that went: %v", err)
		}
		a.turns.Give("")
		if err := a.enter(t.Context(), "", patience); err != nil {
			t.Error(err)
		}
	})
}

// Those that wait are bounded, too.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 10
		a := newAdmission(Limits{Requests: most})
		var in, refused atomic.Int32
		var all sync.WaitGroup
		start := time.Now()
		for range 5 * most {
			all.Go(func() {
				if err := a.enter(t.Context(), "", packagePatience); err == nil {
					in.Add(1)
				} else if time.Since(start) == 0 {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if in.Load() != most || refused.Load() != 3*most {
			t.Errorf("%d in, %d refused at once", in.Load(), refused.Load())
		}
	})
}

// A client is slowed down to its rate, and others are not.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(Limits{Rate: 4})
		start := time.Now()
		for range 4 + 8 { // at once, and one after the other
			if err := a.enter(t.Context(), "a", patience); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("12 requests at 4 a second, 4 of them at once, took %v", took)
		}
		if err := a.enter(t.Context(), "b", patience); err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("another client: %v, after %v", err, time.Since(start))
		}
		const patient = patience - time.Second/8 // which ends between two turns
		var mu sync.Mutex
		var refused int
		var longest time.Duration
		var all sync.WaitGroup
		for range 40 { // at the same time
			all.Go(func() {
				if err := a.enter(t.Context(), "a", patient); err != nil {
					mu.Lock()
					defer mu.Unlock()
					refused++
					longest = max(longest, wait(err))
				}
			})
		}
		all.Wait()
		if want := 40 - int(patient/(time.Second/4)); refused != want || longest > patience+time.Second {
			t.Errorf("%d of 40 refused, to wait %v", refused, longest)
		}
		if err := a.enter(t.Context(), "a", patience); err != nil || time.Since(start) != 2*time.Second+patience {
			t.Errorf("after a flood: %v, after %v", err, time.Since(start))
		}
	})
}

func TestClientOf(t *testing.T) {
	known := auth.WithPrincipal(context.Background(), auth.Principal{Kind: auth.ByToken, ID: "abc", Name: "ci"})
	for _, c := range []struct {
		ctx           context.Context
		address, want string
	}{
		{known, "192.0.2.1", "token abc"},
		{context.Background(), "192.0.2.1", "192.0.2.1"},
		{context.Background(), "2001:db8:0:1:2:3:4:5", "2001:db8:0:1::/64"},
		{context.Background(), "fe80::1%eth0", "fe80::/64"},
		{context.Background(), "@", "@"},
	} {
		if got := clientOf(auth.PrincipalOf(c.ctx), c.address); got != c.want {
			t.Errorf("%s: %s; want %s", c.address, got, c.want)
		}
	}
}

// A client that is refused has spent a request, too.
func TestRateOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Config{Auth: &auth.Authenticator{}, Limits: Limits{Rate: 1}})
		var statuses []string
		for range 2 {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("GET", "/registry.example.com/v1/modules/a/b/c/versions", nil)
			start := time.Now()
			h.ServeHTTP(w, r)
			statuses = append(statuses, fmt.Sprint(w.Code, " after ", time.Since(start)))
		}
		if got := fmt.Sprint(statuses); got != "[401 after 0s 401 after 1s]" {
			t.Error(got)
		}
	})
}

// Whatever proxies hand on, the client's address is valid, and that of the connection if that is not a trusted proxy's.
func FuzzClientAddress(f *testing.F) {
	h := New(Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	f.Add("10.0.0.1:1", "203.0.113.9, [::1]:80,,10.1.1.1", "")
	f.Add("192.0.2.1:1", "203.0.113.9", `for="[2001:db8::1]:4711";proto=http, for=_x`)
	f.Fuzz(func(t *testing.T, remote, xff, forwarded string) {
		r := &http.Request{RemoteAddr: remote, Header: http.Header{}}
		if xff != "" {
			r.Header["X-Forwarded-For"] = []string{xff}
		}
		if forwarded != "" {
			r.Header["Forwarded"] = []string{forwarded}
		}
		got := h.clientAddress(r)
		from, err := netip.ParseAddrPort(remote)
		if err != nil {
			return
		}
		if _, err := netip.ParseAddr(got); err != nil {
			t.Fatalf("%q, %q, %q: %q is no address", remote, xff, forwarded, got)
		}
		if trusted := h.trusts(from.Addr().Unmap()); !trusted && clientOf(auth.Principal{}, got) != clientOf(auth.Principal{}, from.Addr().String()) {
			t.Fatalf("%q, %q, %q: %q", remote, xff, forwarded, got)
		}
	})
}

// Where a request came from is what trusted proxies say one after the other, and
// nothing that was there before them.
func TestClientAddress(t *testing.T) {
	h := New(Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}})
	const trusted, stranger = "10.1.2.3:9999", "192.0.2.1:9999"
	for _, c := range []struct {
		remote string
		header http.Header
		want   string
	}{
		{stranger, nil, "192.0.2.1"},
		{stranger, http.Header{"X-Forwarded-For": {"203.0.113.9"}}, "192.0.2.1"},
		{trusted, nil, "10.1.2.3"},
		{trusted, http.Header{"X-Forwarded-For": {"203.0.113.9"}}, "203.0.113.9"},
		{trusted, http.Header{"X-Forwarded-For": {"198.51.100.1, 203.0.113.9, 10.9.9.9"}}, "203.0.113.9"},
		{trusted, http.Header{"X-Forwarded-For": {"198.51.100.1", "203.0.113.9", "10.9.9.9"}}, "203.0.113.9"},
		{trusted, http.Header{"X-Forwarded-For": {"10.0.0.1,10.0.0.2"}}, "10.0.0.1"},
		{trusted, http.Header{"X-Forwarded-For": {"198.51.100.1, unknown, 10.9.9.9"}}, "10.9.9.9"},
		{trusted, http.Header{"X-Forwarded-For": {""}}, "10.1.2.3"},
		{trusted, http.Header{"X-Forwarded-For": {"203.0.113.9:4711"}}, "203.0.113.9"},
		{"[fd00::1]:80", http.Header{"X-Forwarded-For": {"[2001:db8::9]"}}, "2001:db8::9"},
		{"[::ffff:10.0.0.1]:80", http.Header{"X-Forwarded-For": {"::ffff:203.0.113.9"}}, "203.0.113.9"},
		{trusted, http.Header{"Forwarded": {`for=198.51.100.1;proto=http, For="[2001:db8::9]:4711";by=x, for=10.9.9.9`}}, "2001:db8::9"},
		{trusted, http.Header{"Forwarded": {`for=198.51.100.1, for=_hidden`}}, "10.1.2.3"},
		{trusted, http.Header{"Forwarded": {`for="a, for=203.0.113.9`}}, "203.0.113.9"},
		{trusted, http.Header{"Forwarded": {"for=198.51.100.1"}, "X-Forwarded-For": {"203.0.113.9"}}, "203.0.113.9"},
		{trusted, http.Header{"Forwarded": {"for=198.51.100.1"}, "X-Forwarded-Proto": {"https"}}, "10.1.2.3"},
		{trusted, http.Header{"Forwarded": {"for=198.51.100.1"}, "X-Forwarded-Port": {""}}, "10.1.2.3"},
		{"@", nil, ""},
	} {
		if got := h.clientAddress(&http.Request{RemoteAddr: c.remote, Header: c.header}); got != c.want {
			t.Errorf("from %s, %v: %s; want %s", c.remote, c.header, got, c.want)
		}
	}
}
