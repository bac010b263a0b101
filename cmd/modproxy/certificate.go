package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy/config"
)

// certificate is the TLS certificate in force. It follows its files: a changed
// pair is used from the next connection on, and a broken one is not.
type certificate struct {
	files   config.TLS
	current atomic.Pointer[tls.Certificate]

	mu     sync.Mutex // held while the files are read
	stamp  string     // of the files that current came from
	looked time.Time  // when the files were last looked at
}

// certificateInterval is how often the certificate's files are looked at.
const certificateInterval = time.Second

// newCertificate is nil when none is configured.
func newCertificate(files config.TLS) (*certificate, error) {
	if files.CertFile == "" {
		return nil, nil
	}
	c := &certificate{files: files}
	if err := c.reload(); err != nil {
		return nil, misuse{err}
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

// get is the certificate of the files as they are now, or the last good one. It
// does not wait for another connection that reads the files.
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
	if err := c.read(); err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	return nil
}

// read is called with c.mu held.
func (c *certificate) read() error {
	c.looked = time.Now()
	stamp, err := stampOf(c.files.CertFile, c.files.KeyFile)
	if err != nil || stamp == c.stamp {
		return err
	}
	cert, err := readRegular(c.files.CertFile, maxPEM)
	if err != nil {
		return err
	}
	key, err := readRegular(c.files.KeyFile, maxPEM)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("%s: %w", c.files.CertFile, err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return err
		}
	}
	c.current.Store(&pair)
	c.stamp = stamp
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

// maxPEM bounds a file with a certificate or a key, in bytes.
const maxPEM = 1 << 20

// readRegular reads a file of at most so many bytes that is one, or a link to one:
// reading a pipe might take for ever.
func readRegular(name string, most int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|noWait, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", name, errNotRegular)
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s: more than %d bytes", name, most)
	}
	return text, err
}

var errNotRegular = errors.New("not a regular file")
