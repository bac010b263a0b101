package egress_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/egress/egresstest"
)

// site is the proxy of a site. Only it can look up names of the internet, which all are on 127.0.0.1.
type site struct {
	*egresstest.Proxy
	address string
}

func newSite(t *testing.T, scheme string) *site {
	s := &site{Proxy: &egresstest.Proxy{User: "u", Password: "SECRET", Dial: func(hostport string) (net.Conn, error) {
		_, port, _ := net.SplitHostPort(hostport)
		return net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	}}}
	if strings.HasPrefix(scheme, "socks5") {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go s.ServeSOCKS(l)
		s.address = l.Addr().String()
		return s
	}
	s.address = serve(t, scheme, "127.0.0.1", s.ServeHTTP).Listener.Addr().String()
	return s
}

func (s *site) took() string { return strings.Join(s.Took(), ", ") }

// TestProxyOfTheEnvironment: an http proxy receives addresses that the policy allows. It receives names only if the operator
// has excepted them or set ProxyNames.
func TestProxyOfTheEnvironment(t *testing.T) {
	s := serve(t, "https", "127.0.0.1", hello)
	plain := serve(t, "http", "127.0.0.1", hello)
	port := ":" + strconv.Itoa(s.port)
	plainPort := ":" + strconv.Itoa(plain.port)
	for _, scheme := range []string{"http", "https"} {
		for _, byName := range []bool{false, true} {
			p := newSite(t, scheme)
			t.Setenv("HTTPS_PROXY", scheme+"://u:SECRET@"+p.address)
			t.Setenv("HTTP_PROXY", scheme+"://u:SECRET@"+p.address)
			t.Setenv("NO_PROXY", "direct.test")
			c := client(t, egress.Config{
				ProxyNames: byName,
				Ports:      []int{s.port},
				Allow:      []string{"plain.test", "direct.test", "127.0.0.2", "inside.test", "named.test"},
				Resolver: names{
					"direct.test": {"127.0.0.1"}, "rebind.test": {"127.0.0.1"}, "mixed.test": {"10.0.0.1", "93.184.215.14"},
					"inside.test": {"10.0.0.1"}, "range.test": {"127.0.0.2"}, "public.test": {"93.184.215.14"},
				},
			})
			for _, tt := range []struct {
				url, address, name string // its requests without and with ProxyNames; empty: no request
			}{
				{s.at("https", "unknown.test", "/"), "", "CONNECT unknown.test" + port}, // only the proxy can resolve it
				{s.at("https", "public.test", "/"), "CONNECT 93.184.215.14" + port, "CONNECT public.test" + port},
				{s.at("https", "inside.test", "/"), "CONNECT inside.test" + port, "CONNECT inside.test" + port}, // excepted by name
				{s.at("https", "named.test", "/"), "CONNECT named.test" + port, "CONNECT named.test" + port},
				{s.at("https", "range.test", "/"), "CONNECT 127.0.0.2" + port, "CONNECT range.test" + port}, // excepted by address
				{plain.at("http", "plain.test", "/"), "GET plain.test" + plainPort, "GET plain.test" + plainPort},
				{plain.at("http", "range.test", "/"), "CONNECT 127.0.0.2" + plainPort, "GET range.test" + plainPort},
				{s.at("https", "mixed.test", "/"), "CONNECT 93.184.215.14" + port, ""}, // the proxy might use the other address
				{s.at("https", "rebind.test", "/"), "", ""},
				{s.at("https", "169.254.169.254", "/"), "", ""},
				{s.at("https", "10.0.0.1", "/"), "", ""},
				{s.at("https", "[::1]", "/"), "", ""},
				{s.at("http", "unknown.test", "/"), "", ""},
				{plain.at("https", "public.test", "/"), "", ""}, // the port is not allowed
			} {
				want := tt.address
				if byName {
					want = tt.name
				}
				body, err := fetch(t.Context(), c, egress.Request{URL: tt.url})
				if asked := p.took(); asked != want || (err == nil) != (want != "") || err == nil && string(body) != "hello" {
					t.Errorf("%s, names %v: %s: the proxy was asked for %q, want %q; got %q, %v", scheme, byName, tt.url,
						asked, want, body, err)
				}
				c.Close()
			}
			body, err := fetch(t.Context(), c, egress.Request{URL: s.at("https", "direct.test", "/")})
			if asked := p.took(); asked != "" || string(body) != "hello" {
				t.Errorf("%s: past the proxy: it was asked for %q; got %q, %v", scheme, asked, body, err)
			}
		}
	}
}

// TestProxyThatWantsNames: the proxies of some sites accept names only, and some sites cannot look up names. The error names
// the setting to change.
func TestProxyThatWantsNames(t *testing.T) {
	p := newSite(t, "http")
	p.Dial = func(string) (net.Conn, error) { return nil, errors.New("not by its address") }
	t.Setenv("HTTPS_PROXY", "http://u:SECRET@"+p.address)
	c := client(t, egress.Config{Resolver: names{"public.test": {"93.184.215.14"}}})
	for _, name := range []string{"public.test", "unknown.test"} {
		_, err := fetch(t.Context(), c, egress.Request{URL: "https://" + name + "/"})
		if err == nil || !strings.Contains(err.Error(), "egress.proxy_names") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestProxyThatDoesNotAnswer: a request may end during the request to an https proxy. The race detector checks this.
func TestProxyThatDoesNotAnswer(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		t.Setenv("HTTPS_PROXY", scheme+"://"+l.Addr().String())
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = fetch(ctx, client(t, up()), egress.Request{URL: "https://up.test/"})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

// TestProxyIsNotAskedForNames: if a name has another address for the site's proxy, the proxy still receives the checked
// address, from requests and from sessions.
func TestProxyIsNotAskedForNames(t *testing.T) {
	good := serve(t, "https", "127.0.0.1", hello)
	inside := canary(t)
	for _, scheme := range []string{"http", "https", "socks5"} {
		p := newSite(t, scheme)
		p.Dial = func(hostport string) (net.Conn, error) {
			if _, err := netip.ParseAddrPort(hostport); err != nil {
				return net.Dial("tcp", inside.Listener.Addr().String())
			}
			return net.Dial("tcp", good.Listener.Addr().String())
		}
		t.Setenv("HTTPS_PROXY", scheme+"://u:SECRET@"+p.address)
		c := client(t, egress.Config{Ports: []int{good.port}, Resolver: names{"changing.test": {"93.184.215.14"}}})
		for name, asked := range map[string]string{"changing.test": " 93.184.215.14:" + strconv.Itoa(good.port),
			"hidden.test": ""} {
			u := good.at("https", name, "/")
			body, err := fetch(t.Context(), c, egress.Request{URL: u})
			if got := p.took(); !strings.HasSuffix(got, asked) || (got == "") != (asked == "") ||
				(string(body) == "hello") != (asked != "") {
				t.Errorf("%s: %s: the proxy was asked for %q; got %q, %v", scheme, u, got, body, err)
			}
			session := open(t, c, 1<<20)
			resp, err := through(t, session).Get(u)
			if got := p.took(); !strings.HasSuffix(got, asked) || (got == "") != (asked == "") || (err == nil) != (asked != "") {
				t.Errorf("%s: %s through a session: the proxy was asked for %q; %v", scheme, u, got, err)
			}
			if err == nil && read(t, resp) != "hello" {
				t.Errorf("%s: %s through a session: another body", scheme, u)
			}
			session.Close()
		}
		c.Close()
	}
}

// TestSOCKSProxy: a socks5 proxy receives the checked address, and a socks5h proxy the name, under the same policy.
func TestSOCKSProxy(t *testing.T) {
	s := serve(t, "https", "127.0.0.1", hello)
	plain := serve(t, "http", "127.0.0.1", hello)
	port := ":" + strconv.Itoa(s.port)
	for _, scheme := range []string{"socks5", "socks5h"} {
		p := newSite(t, scheme)
		t.Setenv("ALL_PROXY", scheme+"://u:SECRET@"+p.address)
		t.Setenv("NO_PROXY", "direct.test")
		c := client(t, egress.Config{
			Ports: []int{s.port},
			Allow: []string{"plain.test", "direct.test", "inside.test"},
			Resolver: names{
				"direct.test": {"127.0.0.1"}, "loop.test": {"127.0.0.1"}, "metadata.test": {"169.254.169.254"},
				"mixed.test": {"10.0.0.1", "93.184.215.14"}, "inside.test": {"10.0.0.1"}, "plain.test": {"10.0.0.2"},
				"public.test": {"93.184.215.14"}, "six.test": {"2606:2800:21f:cb07::1"},
			},
		})
		// here and there are the proxy's requests with socks5 and with socks5h; empty: no request
		for _, tt := range []struct{ url, here, there string }{
			{s.at("https", "public.test", "/"), "93.184.215.14" + port, "public.test" + port},
			{s.at("https", "six.test", "/"), "[2606:2800:21f:cb07::1]" + port, "six.test" + port},
			{s.at("https", "93.184.215.14", "/"), "93.184.215.14" + port, "93.184.215.14" + port},
			{s.at("https", "inside.test", "/"), "10.0.0.1" + port, "inside.test" + port},
			{plain.at("http", "plain.test", "/"), "10.0.0.2:" + strconv.Itoa(plain.port),
				plain.at("", "plain.test", "")[len("://"):]},
			{s.at("https", "mixed.test", "/"), "93.184.215.14" + port, ""}, // the proxy might use the other address
			{s.at("https", "unknown.test", "/"), "", "unknown.test" + port},
			{s.at("https", "loop.test", "/"), "", ""},
			{s.at("https", "metadata.test", "/"), "", ""},
			{s.at("https", "169.254.169.254", "/"), "", ""},
			{s.at("https", "[::1]", "/"), "", ""},
			{s.at("http", "public.test", "/"), "", ""},
			{"https://public.test:1/", "", ""},
		} {
			want := tt.here
			if scheme == "socks5h" {
				want = tt.there
			}
			if want != "" {
				want = "SOCKS " + want
			}
			_, err := fetch(t.Context(), c, egress.Request{URL: tt.url})
			// the certificate is for names only
			if asked := p.took(); asked != want || (err == nil) != (want != "" &&
				tt.url != s.at("https", "93.184.215.14", "/")) {
				t.Errorf("%s: %s: the proxy was asked for %q, want %q; %v", scheme, tt.url, asked, want, err)
			}
			c.Close() // open connections would be reused
			session := open(t, c, 1<<20)
			if resp, err := through(t, session).Get(tt.url); err == nil {
				resp.Body.Close()
			}
			if asked := p.took(); asked != want {
				t.Errorf("%s: %s through a session: the proxy was asked for %q, want %q", scheme, tt.url, asked, want)
			}
			session.Close()
			c.Close()
		}
		body, err := fetch(t.Context(), c, egress.Request{URL: s.at("https", "direct.test", "/")})
		if asked := p.took(); asked != "" || string(body) != "hello" {
			t.Errorf("%s: past the proxy: it was asked for %q; got %q, %v", scheme, asked, body, err)
		}
	}
}

// TestAllProxyIsForTheRest: the setting for one scheme takes precedence over that for all.
func TestAllProxyIsForTheRest(t *testing.T) {
	s := serve(t, "https", "127.0.0.1", hello)
	all, https := newSite(t, "socks5h"), newSite(t, "http")
	for _, name := range []string{"ALL_PROXY", "all_proxy"} {
		t.Setenv("ALL_PROXY", "")
		t.Setenv(name, "socks5h://u:SECRET@"+all.address)
		for setting, asked := range map[string]string{"": "SOCKS public.test",
			"u:SECRET@" + https.address: "CONNECT public.test"} {
			t.Setenv("HTTPS_PROXY", setting)
			c := client(t, egress.Config{Ports: []int{s.port}, Resolver: names{}, ProxyNames: true})
			_, err := fetch(t.Context(), c, egress.Request{URL: s.at("https", "public.test", "/")})
			if got := all.took() + https.took(); err != nil || got != asked+":"+strconv.Itoa(s.port) {
				t.Errorf("%s with HTTPS_PROXY=%q: asked %q, %v", name, setting, got, err)
			}
		}
	}
}

// TestBadProxySettings: an unusable setting is refused at once, so that no request bypasses the proxy.
func TestBadProxySettings(t *testing.T) {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY"} {
		for _, setting := range []string{
			"ftp://u:SECRET@127.0.0.1:1", "socks4://u:SECRET@127.0.0.1:1", "socks://u:SECRET@127.0.0.1:1", "http://u:SECRET@[",
			"http://u:SECRET@127.0.0.1:x", "http://u:SECRET@127.0.0.1/path", "http://127.0.0.1/?SECRET", "://SECRET", "u:SECRET",
		} {
			t.Setenv(name, setting)
			_, err := egress.New(egress.Config{})
			if err == nil || strings.Contains(err.Error(), "SECRET") ||
				!strings.Contains(err.Error(), "want the URL of a proxy") {
				t.Errorf("%s=%s: %v", name, setting, err)
			}
			if err != nil && !strings.Contains(err.Error(), strings.ToUpper(name)) {
				t.Errorf("%s is not named: %v", name, err)
			}
			t.Setenv(name, "")
		}
	}
}

func TestProxySettingsAreNotShown(t *testing.T) {
	p := newSite(t, "http")
	for _, proxy := range []string{"http://u:SECRET@127.0.0.1:1", "http://x:SECRET@" + p.address,
		"socks5h://u:SECRET@127.0.0.1:1", "socks5h://x:SECRET@" + newSite(t, "socks5").address} {
		t.Setenv("HTTPS_PROXY", proxy)
		c := client(t, egress.Config{Resolver: names{}})
		_, err := fetch(t.Context(), c, egress.Request{URL: "https://a.test/"})
		if err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("got %v", err)
		}
		session := open(t, c, 1000)
		if _, err := through(t, session).Get("https://a.test/"); err == nil ||
			strings.Contains(session.Refused().Error(), "SECRET") {
			t.Errorf("session: got %v", session.Refused())
		}
	}
}

func open(t *testing.T, c *egress.Client, maxBytes int64) *egress.Session {
	t.Helper()
	session, err := c.Session(maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// through returns a client that uses a session as its proxy, like git.
func through(t *testing.T, s *egress.Session) *http.Client {
	t.Helper()
	return throughURL(t, s.URL())
}

func throughURL(t *testing.T, raw string) *http.Client {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(u), TLSClientConfig: trusting()}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
