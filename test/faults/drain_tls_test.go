//go:build linux

package faults_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/registrytest"
)

// The certificate is replaced repeatedly while clients connect. No client fails, new certificates are soon in use, and a partly written
// one is not.
func TestCertificateIsReplacedUnderLoad(t *testing.T) {
	etc := t.TempDir()
	replace := func() (serial string) {
		t.Helper()
		cert, key, err := registrytest.CA().Issue("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{"cert.pem": cert, "key.pem": key} { // for a while the two do not match
			if err := errors.Join(os.WriteFile(filepath.Join(etc, "new"), text, 0o600), os.Rename(filepath.Join(etc, "new"), filepath.Join(etc, name))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.SerialNumber.String()
	}
	first := replace()
	t.Setenv("MODPROXY_TLS_CERT_FILE", filepath.Join(etc, "cert.pem"))
	t.Setenv("MODPROXY_TLS_KEY_FILE", filepath.Join(etc, "key.pem"))
	r := newProxy(t, with{})
	r.url = strings.Replace(r.url, "http:", "https:", 1)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(registrytest.CA().PEM)
	r.client.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: trusted}}
	r.start()
	r.ready()
	p := r.keep("m")
	ctx, cancel := context.WithCancel(t.Context())
	var answered atomic.Int64
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				if a := r.ask("GET", p.path); a.Err != nil || a.Status != http.StatusOK {
					t.Error(a)
				}
				answered.Add(1)
			}
		})
	}
	shown := func() string {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(r.url, "https://"), &tls.Config{RootCAs: trusted})
		if err != nil {
			t.Error(err)
			return ""
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	soon := func(want string) {
		t.Helper()
		for started := time.Now(); time.Since(started) < time.Minute; time.Sleep(20 * time.Millisecond) {
			if shown() == want {
				return
			}
		}
		t.Errorf("the new certificate is not in use")
	}
	if is := shown(); is != first {
		t.Errorf("the certificate is %s, want %s", is, first)
	}
	var last string
	for range rounds(2, 10) {
		last = replace()
		soon(last)
	}
	if err := os.WriteFile(filepath.Join(etc, "cert.pem"), []byte("-----BEGIN CERTIFICATE-----\nMIIB"), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // modproxy has looked at the files
	if is := shown(); is != last {
		t.Errorf("with half a certificate: %s, want %s", is, last)
	}
	cancel()
	load.Wait()
	r.stop()
	t.Logf("%d answers meanwhile", answered.Load())
}
