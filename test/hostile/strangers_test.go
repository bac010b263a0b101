//go:build linux

package hostile_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modproxy/modproxy/test/registrytest"
)

// strangers are the servers below evil.test: by https at their own port, and, where no request should arrive, by https at another port and
// by plain http.
type strangers struct {
	mu       sync.Mutex
	handlers map[string]http.Handler // by host, without port
	seen     []sighting
	idle     map[net.Conn]bool
	number   int
}

// sighting is a request that a stranger received.
type sighting struct {
	Scheme, Host, Port string // Host as in the request, without port
	Method, URI        string
	Header             http.Header
}

func (s sighting) String() string {
	return fmt.Sprintf("%s %s://%s:%s%s %v", s.Method, s.Scheme, s.Host, s.Port, s.URI, s.Header)
}

func newStrangers() *strangers {
	return &strangers{handlers: map[string]http.Handler{}, idle: map[net.Conn]bool{}}
}

func (s *strangers) start() error {
	for _, address := range []string{strangersAddress + ":443", strangersAddress + ":8443", strangersAddress + ":80", insideAddress + ":443"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("strangers: %w", err)
		}
		server := &http.Server{
			Handler: s, ConnState: s.track, ErrorLog: log.New(io.Discard, "", 0),
			TLSConfig:    &tls.Config{GetCertificate: certificateFor},
			TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // HTTP/1.1 only
		}
		if strings.HasSuffix(address, ":80") {
			go server.Serve(l)
		} else {
			go server.ServeTLS(l, "", "")
		}
	}
	return nil
}

var issued sync.Map // *tls.Certificate by name

// certificateFor returns a valid certificate for any name. Strangers do not fail because of their certificates.
func certificateFor(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := hello.ServerName
	if name == "" {
		name, _, _ = net.SplitHostPort(hello.Conn.LocalAddr().String())
	}
	if _, domain, ok := strings.Cut(name, "."); ok && domain == "evil.test" {
		name = "*." + domain // one certificate for most names
	}
	if c, ok := issued.Load(name); ok {
		return c.(*tls.Certificate), nil
	}
	certificate, key, err := registrytest.CA().Issue(name)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	issued.Store(name, &pair)
	return &pair, nil
}

func (s *strangers) track(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A new connection may never have had a request, and waits for a later one.
	if state == http.StateIdle || state == http.StateNew {
		s.idle[c] = true
	} else {
		delete(s.idle, c)
	}
}

func (s *strangers) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.idle {
		c.Close()
	}
}

func (s *strangers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := strings.Cut(strings.ToLower(r.Host), ":")
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	_, port, _ := net.SplitHostPort(r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
	s.mu.Lock()
	s.seen = append(s.seen, sighting{scheme, host, port, r.Method, r.URL.RequestURI(), r.Header.Clone()})
	handler := s.handlers[host]
	s.mu.Unlock()
	if handler == nil {
		http.Error(w, "nobody lives here", http.StatusNotFound)
		return
	}
	handler.ServeHTTP(w, r)
}

// stranger puts a handler at a new host for one test, and returns the host.
func stranger(t testing.TB, handler http.Handler) string {
	s := world.strangers
	s.mu.Lock()
	s.number++
	host := fmt.Sprintf("h%d.evil.test", s.number)
	s.mu.Unlock()
	strangerAt(t, host, handler)
	return host
}

// strangerAt is stranger for a given host.
func strangerAt(t testing.TB, host string, handler http.Handler) {
	s := world.strangers
	s.mu.Lock()
	defer s.mu.Unlock()
	host = strings.ToLower(host)
	s.handlers[host] = handler
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.handlers, host)
	})
}

// at returns the requests to a host so far; "" means any host.
func (s *strangers) at(host string) []sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.seen), func(r sighting) bool { return host != "" && r.Host != host })
}

// A registry is a stranger that follows the protocol, except in the fields that are set.
type registry struct {
	discovery func(w http.ResponseWriter, r *http.Request)
	versions  func(w http.ResponseWriter, r *http.Request)
	// download, if not nil, answers for a version.
	download func(w http.ResponseWriter, r *http.Request, version string)
	// other, if not nil, answers all other requests.
	other func(w http.ResponseWriter, r *http.Request)
}

// host puts the registry at a new host for one test.
func (g *registry) host(t testing.TB) string { return stranger(t, g) }

func (g *registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/")
	last := parts[len(parts)-1]
	inProtocol := strings.HasPrefix(r.URL.Path, "/v1/modules/")
	switch {
	case r.URL.Path == "/.well-known/terraform.json" && g.discovery != nil:
		g.discovery(w, r)
	case r.URL.Path == "/.well-known/terraform.json":
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"modules.v1":"/v1/modules/"}`)
	case inProtocol && last == "versions" && g.versions != nil:
		g.versions(w, r)
	case inProtocol && last == "versions":
		io.WriteString(w, `{"modules":[{"versions":[{"version":"1.0.0"}]}]}`)
	case inProtocol && last == "download" && g.download != nil:
		g.download(w, r, parts[len(parts)-2])
	case g.other != nil:
		g.other(w, r)
	default:
		http.NotFound(w, r)
	}
}

// located is a registry whose versions are all at location.
func located(location string) *registry {
	return &registry{download: func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("X-Terraform-Get", location)
		w.WriteHeader(http.StatusNoContent)
	}}
}
