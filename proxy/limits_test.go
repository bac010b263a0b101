package proxy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/httpx"
)

// A request that is rejected counts for the rate, too.
func TestRateOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Config{Auth: &auth.Authenticator{}, Limits: httpx.Limits{Rate: 1}})
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

// The client's address is valid for every forwarding header. It is the address of the connection unless that is a trusted proxy's.
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
		at, err := netip.ParseAddr(got)
		if err != nil {
			t.Fatalf("%q, %q, %q: %q is no address", remote, xff, forwarded, got)
		}
		if trusted := h.trusts(from.Addr().Unmap()); !trusted && at.Unmap().WithZone("") != from.Addr().Unmap().WithZone("") {
			t.Fatalf("%q, %q, %q: %q", remote, xff, forwarded, got)
		}
	})
}

// The client's address is the one that the chain of trusted proxies names. Addresses before them do not count.
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
