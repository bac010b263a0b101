package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"
)

// certificate is the TLS certificate in force. It follows its files: a changed
// pair is used from the next connection on, and a broken one is not.
type certificate struct {
	files TLS

	mu      sync.Mutex
	current *tls.Certificate
	stamp   string    // of the files that current came from
	looked  time.Time // when the files were last looked at
}

// certificateInterval is how often the certificate's files are looked at.
const certificateInterval = time.Second

// newCertificate is nil when none is configured.
func newCertificate(files TLS) (*certificate, error) {
	if files.CertFile == "" {
		return nil, nil
	}
	c := &certificate{files: files}
	if err := c.reload(); err != nil {
		return nil, misuse{fmt.Errorf("tls: %w", err)}
	}
	return c, nil
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil },
	}
}

// get is the certificate of the files as they are now, or the last good one.
func (c *certificate) get() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) >= certificateInterval {
		_ = c.reload() // files that are just being replaced: the last good pair goes on
	}
	return c.current
}

func (c *certificate) reload() error {
	c.looked = time.Now()
	stamp, err := stampOf(c.files.CertFile, c.files.KeyFile)
	if err != nil || stamp == c.stamp {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.files.CertFile, c.files.KeyFile)
	if err != nil {
		return err
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return err
		}
	}
	c.current, c.stamp = &pair, stamp
	return nil
}

func stampOf(names ...string) (string, error) {
	var stamp strings.Builder
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&stamp, info.ModTime().UnixNano(), info.Size())
	}
	return stamp.String(), nil
}

// knownHosts reports whether a request's host is one that this process is sure to
// be known by: the address it listens on, and the names in its certificate.
func knownHosts(listening net.Addr, c *certificate) func(string) bool {
	own := map[string]bool{listening.String(): true}
	if ap, err := netip.ParseAddrPort(listening.String()); err == nil && ap.Addr().Unmap().IsLoopback() {
		own[fmt.Sprintf("localhost:%d", ap.Port())] = true
	}
	if ap, err := netip.ParseAddrPort(listening.String()); err == nil && ap.Addr().IsUnspecified() {
		for _, loopback := range []string{"127.0.0.1", "localhost", "[::1]"} {
			own[fmt.Sprintf("%s:%d", loopback, ap.Port())] = true
		}
	}
	return func(host string) bool {
		if own[host] {
			return true
		}
		if c == nil || strings.ContainsAny(host, "/@?#\\ ") {
			return false
		}
		name := host
		if h, _, err := net.SplitHostPort(host); err == nil {
			name = h
		}
		return c.get().Leaf.VerifyHostname(name) == nil
	}
}
