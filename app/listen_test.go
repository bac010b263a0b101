package app

import (
	"crypto/tls"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/test/registrytest"
)

// writePair writes a certificate for name and its key into dir.
func writePair(t *testing.T, dir, name string) {
	t.Helper()
	cert, key, err := registrytest.CA().Issue(name)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{"cert.pem": cert, "key.pem": key} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func nameOf(c *tls.Certificate) string { return c.Leaf.DNSNames[0] }

// TestCertificateFollowsItsFiles: a renewed certificate is used without a restart. A broken one is not used.
func TestCertificateFollowsItsFiles(t *testing.T) {
	dir := t.TempDir()
	writePair(t, dir, "old.example")
	c, err := newCertificate(config.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if got := nameOf(c.get()); got != "old.example" {
		t.Fatalf("certificate for %s", got)
	}
	overdue := func() { c.looked = time.Now().Add(-certificateInterval) }

	if err := os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("half a"), 0o600); err != nil {
		t.Fatal(err)
	}
	overdue()
	if got := nameOf(c.get()); got != "old.example" {
		t.Errorf("with a broken file: certificate for %s", got)
	}
	writePair(t, dir, "new.example")
	if got := nameOf(c.get()); got != "old.example" {
		t.Errorf("the files are looked at more often than once in %v", certificateInterval)
	}
	overdue()
	if got := nameOf(c.get()); got != "new.example" {
		t.Errorf("with new files: certificate for %s", got)
	}
	if err := os.Remove(filepath.Join(dir, "key.pem")); err != nil {
		t.Fatal(err)
	}
	overdue()
	if got := nameOf(c.get()); got != "new.example" {
		t.Errorf("without a key: certificate for %s", got)
	}
	if _, err := newCertificate(config.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}, zap.NewNop()); err == nil {
		t.Error("a start without a key succeeds")
	}
}

func TestHasName(t *testing.T) {
	dir := t.TempDir()
	writePair(t, dir, "modules.example")
	c, err := newCertificate(config.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	at := func(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }
	loopback, anywhere, one := process{&App{}, addresses(at("127.0.0.1:8080"))}, process{&App{}, addresses(at("0.0.0.0:8080"))}, process{&App{tls: c}, addresses(at("192.0.2.1:443"))}
	for _, k := range []struct {
		process process
		host    string
		want    bool
	}{
		{loopback, "127.0.0.1:8080", true},
		{loopback, "localhost:8080", true},
		{loopback, "127.0.0.1:8081", false},
		{loopback, "evil.test", false},
		{anywhere, "127.0.0.1:8080", true},
		{anywhere, "modules.example:8080", false},
		{one, "192.0.2.1:443", true},
		{one, "modules.example", true},
		{one, "modules.example:8443", true}, // any port: ports are often mapped, names are not
		{one, "other.example", false},
		{one, "modules.example/x", false},
		{one, "", false},
	} {
		if got := k.process.HasName(k.host); got != k.want {
			t.Errorf("%q: known %v; want %v", k.host, got, k.want)
		}
	}
}
