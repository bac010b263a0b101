// Package egresstest has the proxy of a site, through which all goes out: by HTTP,
// with CONNECT or a whole URL, and by SOCKS 5 (RFC 1928, with the user name and
// password of RFC 1929). Where a destination leads is for the test to say.
package egresstest

import (
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Proxy is the proxy of a site. It is safe for concurrent use; its fields are not
// changed after the first connection.
type Proxy struct {
	User, Password string // what it wants to be shown; nothing if empty
	// Dial connects to host:port as it stands in what the proxy was asked.
	Dial func(hostport string) (net.Conn, error)

	mu    sync.Mutex
	asked []string
}

// Took is what it was asked since this was asked last: "CONNECT host:port", "GET host:port"
// or "SOCKS host:port".
func (p *Proxy) Took() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.asked = nil }()
	return slices.Clone(p.asked)
}

func (p *Proxy) note(how, hostport string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, how+" "+hostport)
}

// ServeHTTP is the proxy by HTTP.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.note(r.Method, r.Host)
	want := ""
	if p.User != "" {
		want = "Basic " + base64.StdEncoding.EncodeToString([]byte(p.User+":"+p.Password))
	}
	if r.Header.Get("Proxy-Authorization") != want {
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	if r.Method != http.MethodConnect {
		proxy := &httputil.ReverseProxy{
			Rewrite: func(*httputil.ProxyRequest) {},
			Transport: &http.Transport{DisableKeepAlives: true,
				DialContext: func(context.Context, string, string) (net.Conn, error) {
					return p.Dial(r.Host)
				}},
		}
		proxy.ServeHTTP(w, r)
		return
	}
	there, err := p.Dial(r.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	here, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		there.Close()
		return
	}
	io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
	join(here, there)
}

// ServeSOCKS is the proxy by SOCKS 5, until l is closed.
func (p *Proxy) ServeSOCKS(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go p.socks(c)
	}
}

func (p *Proxy) socks(c net.Conn) {
	defer c.Close()
	hostport, ok := p.negotiate(c)
	if !ok {
		return
	}
	p.note("SOCKS", hostport)
	there, err := p.Dial(hostport)
	if err != nil {
		c.Write([]byte{5, 4, 0, 1, 0, 0, 0, 0, 0, 0}) // host unreachable
		return
	}
	c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	join(c, there)
}

// negotiate returns where a connection is to lead.
func (p *Proxy) negotiate(c net.Conn) (hostport string, ok bool) {
	ok = true
	read := func(n byte) []byte {
		b := make([]byte, n)
		if _, err := io.ReadFull(c, b); err != nil {
			ok = false
		}
		return b
	}
	counted := func() string { return string(read(read(1)[0])) }
	method := byte(0)
	if p.User != "" {
		method = 2
	}
	if read(1)[0] != 5 || !strings.Contains(counted(), string([]byte{method})) {
		c.Write([]byte{5, 0xff})
		return "", false
	}
	c.Write([]byte{5, method})
	if method == 2 {
		if version := read(1)[0]; version != 1 || counted() != p.User || counted() != p.Password {
			c.Write([]byte{1, 1})
			return "", false
		}
		c.Write([]byte{1, 0})
	}
	host := ""
	switch head := read(4); head[3] {
	case 1:
		host = net.IP(read(4)).String()
	case 3:
		host = counted()
	case 4:
		host = net.IP(read(16)).String()
	}
	port := read(2)
	return net.JoinHostPort(host, strconv.Itoa(int(port[0])<<8|int(port[1]))), ok && host != ""
}

// join copies both ways until both have ended.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	half := func(to, from net.Conn) {
		io.Copy(to, from)
		to.Close()
	}
	both.Go(func() { half(a, b) })
	half(b, a)
	both.Wait()
}
