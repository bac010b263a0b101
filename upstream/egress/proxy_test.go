package egress_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/modproxy/modproxy/upstream/egress"
)

// site is the HTTP proxy of a site: it alone knows where the names of the internet
// are, which is on 127.0.0.1.
type site struct {
	*server
	mu    sync.Mutex
	asked []string
}

func newSite(t *testing.T, scheme, credential string) *site {
	s := &site{}
	forward := &httputil.ReverseProxy{Rewrite: func(pr *httputil.ProxyRequest) {
		pr.Out.URL.Host = net.JoinHostPort("127.0.0.1", pr.In.URL.Port())
		pr.Out.Host = pr.In.Host
	}}
	s.server = serve(t, scheme, "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.Method+" "+r.Host)
		s.mu.Unlock()
		if r.Header.Get("Proxy-Authorization") != credential {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		if r.Method != http.MethodConnect {
			forward.ServeHTTP(w, r)
			return
		}
		_, port, _ := net.SplitHostPort(r.Host)
		there, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { io.Copy(there, here); there.Close() }()
		go func() { io.Copy(here, there); here.Close() }()
	})
	return s
}

func (s *site) took() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.asked = nil }()
	return strings.Join(s.asked, ", ")
}

func TestProxyOfTheEnvironment(t *testing.T) {
	s := serve(t, "https", "127.0.0.1", hello)
	plain := serve(t, "http", "127.0.0.1", hello)
	port := strconv.Itoa(s.port)
	for _, scheme := range []string{"http", "https"} {
		p := newSite(t, scheme, "Basic dTpTRUNSRVQ=") // u:SECRET
		t.Setenv("HTTPS_PROXY", p.at(scheme, "u:SECRET@127.0.0.1", ""))
		t.Setenv("HTTP_PROXY", p.at(scheme, "u:SECRET@127.0.0.1", ""))
		t.Setenv("NO_PROXY", "direct.test")
		c := client(t, egress.Config{
			Ports: []int{s.port},
			Allow: []string{"plain.test", "direct.test", "127.0.0.2", "inside.test"},
			Resolver: names{
				"direct.test": {"127.0.0.1"}, "rebind.test": {"127.0.0.1"}, "mixed.test": {"93.184.215.14", "10.0.0.1"},
				"inside.test": {"10.0.0.1"}, "range.test": {"127.0.0.2"}, "public.test": {"93.184.215.14"},
			},
		})
		for _, tt := range []struct {
			url, asked string
			refused    bool
		}{
			{s.at("https", "unknown.test", "/"), "CONNECT unknown.test:" + port, false}, // only the proxy can resolve it
			{s.at("https", "public.test", "/"), "CONNECT public.test:" + port, false},
			{s.at("https", "inside.test", "/"), "CONNECT inside.test:" + port, false}, // excepted by name
			{s.at("https", "range.test", "/"), "CONNECT range.test:" + port, false},   // excepted by address
			{s.at("https", "direct.test", "/"), "", false},
			{plain.at("http", "plain.test", "/"), "GET " + plain.at("", "plain.test", "")[len("://"):], false},
			{s.at("https", "rebind.test", "/"), "", true},
			{s.at("https", "mixed.test", "/"), "", true},
			{s.at("https", "169.254.169.254", "/"), "", true},
			{s.at("https", "10.0.0.1", "/"), "", true},
			{s.at("https", "[::1]", "/"), "", true},
			{s.at("http", "unknown.test", "/"), "", true},
			{plain.at("https", "unknown.test", "/"), "", true}, // the port
		} {
			body, err := fetch(t.Context(), c, egress.Request{URL: tt.url})
			if asked := p.took(); asked != tt.asked {
				t.Errorf("%s: the proxy was asked for %q, want %q", tt.url, asked, tt.asked)
			}
			if tt.refused != errors.Is(err, egress.ErrRefused) || !tt.refused && string(body) != "hello" {
				t.Errorf("%s: got %q, %v", tt.url, body, err)
			}
			c.Close()
		}
	}
}

func TestProxySettingsAreNotShown(t *testing.T) {
	p := newSite(t, "http", "Basic x")
	for _, proxy := range []string{"http://u:SECRET@127.0.0.1:1", "ftp://u:SECRET@127.0.0.1:1", "http://u:SECRET@[", p.at("http", "u:SECRET@127.0.0.1", "")} {
		t.Setenv("HTTPS_PROXY", proxy)
		c := client(t, egress.Config{Resolver: names{}})
		_, err := fetch(t.Context(), c, egress.Request{URL: "https://a.test/"})
		if err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("got %v", err)
		}
		tunnel := listen(t, c)
		session := tunnel.Session(1000)
		if _, err := through(t, session).Get("https://a.test/"); err == nil || strings.Contains(session.Refused().Error(), "SECRET") {
			t.Errorf("tunnel: got %v", session.Refused())
		}
	}
}

func listen(t *testing.T, c *egress.Client) *egress.Tunnel {
	t.Helper()
	tunnel, err := c.ListenTunnel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tunnel.Close() })
	return tunnel
}

// through is a client that uses a session as its proxy, as git does.
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
