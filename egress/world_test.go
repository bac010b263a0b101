package egress_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy/egress"
)

// authority is the CA of the tests: a key pair for *.test and loopback, and the text of the file with the root certificate.
var authority = sync.OnceValues(func() (tls.Certificate, []byte) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "egress test"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		DNSNames:     []string{"*.test", "up.test", "two.test", "localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2), net.IPv6loopback},
		IsCA:         true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
})

func caFile(t *testing.T) string {
	t.Helper()
	_, root := authority()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, root, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// server is a server on a loopback address that counts connections and requests.
type server struct {
	*httptest.Server
	port     int
	conns    atomic.Int64
	requests atomic.Int64
}

// serve starts a server at host ("127.0.0.1"). scheme is "http", "https", or "h2" for https with HTTP/2.
func serve(t *testing.T, scheme, host string, h http.HandlerFunc, set ...func(*http.Server)) *server {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &server{port: ln.Addr().(*net.TCPAddr).Port}
	s.Server = &httptest.Server{Listener: ln, Config: &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.requests.Add(1)
			h(w, r)
		}),
		ErrorLog: quiet,
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.conns.Add(1)
			}
		},
	}}
	for _, set := range set {
		set(s.Config)
	}
	if scheme != "http" {
		cert, _ := authority()
		s.EnableHTTP2 = scheme == "h2"
		s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// hang never answers. It returns after the client has gone, by a panic, because a client that closes may still read an answer.
func hang(r *http.Request) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// at returns a URL of s under another hostname.
func (s *server) at(scheme, host, path string) string {
	return scheme + "://" + host + ":" + strconv.Itoa(s.port) + path
}

// canary returns a server that must receive no connection.
func canary(t *testing.T) *server {
	t.Helper()
	s := serve(t, "https", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("secret")) })
	t.Cleanup(func() {
		if n := s.conns.Load(); n != 0 {
			t.Errorf("the canary got %d connections", n)
		}
	})
	return s
}

// names is a resolver. Other names do not exist.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var addrs []netip.Addr
	for _, s := range n[host] {
		addrs = append(addrs, netip.MustParseAddr(s))
	}
	if addrs == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return addrs, nil
}

// client returns a Client for cfg with the CA of the tests.
func client(t *testing.T, cfg egress.Config) *egress.Client {
	t.Helper()
	cfg.CAFile = caFile(t)
	c, err := egress.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// up returns the configuration by which only up.test can be reached. It does not hedge, because tests count requests.
func up(more ...string) egress.Config {
	return egress.Config{Allow: append(more, "up.test"), NoHedging: true,
		Resolver: names{"up.test": {"127.0.0.1"}, "evil.test": {"127.0.0.1"}, "two.test": {"127.0.0.1"}}}
}

func trusting() *tls.Config {
	_, root := authority()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(root)
	return &tls.Config{RootCAs: pool}
}
