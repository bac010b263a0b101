package app

import (
	"crypto/tls"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/test/registrytest"
)

// TestServerSpeaksHTTP1: the server speaks HTTP/1.1 to a client that offers HTTP/2, because only HTTP/1.1 has reason phrases.
func TestServerSpeaksHTTP1(t *testing.T) {
	dir := t.TempDir()
	if err := registrytest.CA().WriteFiles(dir, "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	certificate, err := newCertificate(config.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(http.NotFoundHandler(), certificate, zap.NewNop())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.ServeTLS(listener, "", "")
	defer server.Close()
	conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("%q", got)
	}
}
