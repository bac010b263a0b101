package app

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/durable"
)

// certificate is the TLS certificate in force. It follows its files: a changed pair is used from the next connection
// on, and a broken one is not.
type certificate struct {
	paths   config.TLS
	current atomic.Pointer[tls.Certificate]

	mu     sync.Mutex // held while the files are read
	stamp  string     // of the files that current came from
	looked time.Time  // when the files were last looked at
}

const (
	certificateInterval = time.Second // how often the certificate's files are looked at
	maxPEM              = 1 << 20     // bytes of a file with a certificate or a key
)

// newCertificate returns nil if none is configured.
func newCertificate(paths config.TLS) (*certificate, error) {
	if paths.CertFile == "" {
		return nil, nil
	}
	c := &certificate{paths: paths}
	if err := c.reload(); err != nil {
		return nil, config.Error{fmt.Errorf("tls: %w", err)}
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

// get returns the certificate in the files as they are now, or the last good one. It does not wait for another
// connection that reads the files.
func (c *certificate) get() *tls.Certificate {
	if c.mu.TryLock() {
		defer c.mu.Unlock()
		if time.Since(c.looked) >= certificateInterval {
			_ = c.read() // files that are just being replaced: the last good pair goes on
		}
	}
	return c.current.Load()
}

// reload reads the files, if they have changed.
func (c *certificate) reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

// read is called with c.mu held.
func (c *certificate) read() error {
	c.looked = time.Now()
	stamp := ""
	for _, name := range []string{c.paths.CertFile, c.paths.KeyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		stamp += fmt.Sprintln(info.ModTime().UnixNano(), info.Size())
	}
	if stamp == c.stamp {
		return nil
	}
	cert, err := durable.ReadRegular(c.paths.CertFile, maxPEM)
	if err != nil {
		return err
	}
	key, err := durable.ReadRegular(c.paths.KeyFile, maxPEM)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("%s: %w", c.paths.CertFile, err)
	}
	c.current.Store(&pair)
	c.stamp = stamp
	return nil
}
