package app

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/durable"
)

const (
	certificateInterval = time.Second        // minimum time between two reads of the files
	certificateWarning  = 7 * 24 * time.Hour // how long before its end a certificate is reported as expiring
)

// A certificate is the TLS certificate in use. It follows its files. A broken, expired or not yet valid pair does not replace a
// valid one.
type certificate struct {
	paths   config.TLS
	log     *zap.Logger
	current atomic.Pointer[tls.Certificate]

	mu       sync.Mutex // locked while the files are read; protects the fields below
	looked   time.Time  // when the files were last read
	seen     string     // the error of the last read
	reported string     // the error that was logged last
	warned   string     // the certificate that was last reported as expiring, as DER bytes
}

// newCertificate reads the certificate of a configuration. It returns nil if none is configured.
func newCertificate(paths config.TLS, log *zap.Logger) (*certificate, error) {
	if paths.CertFile == "" {
		return nil, nil
	}
	c := &certificate{paths: paths, log: log}
	if err := c.reload(); err != nil {
		return nil, config.Error{fmt.Errorf("tls: %w", err)}
	}
	return c, nil
}

// CheckCertificate reads the certificate of c as a start does. An expired certificate is an error. If it expires soon, the remark
// is not nil.
func CheckCertificate(c *config.Config) (remark, err error) {
	pair, err := newCertificate(c.TLS, zap.NewNop())
	if pair == nil || err != nil {
		return nil, err
	}
	if err := pair.expired(pair.current.Load(), time.Now()); err != nil {
		return nil, config.Error{fmt.Errorf("tls: %w", err)}
	}
	return pair.problem(), nil
}

// get returns the certificate in use. It reads the files if the last read is certificateInterval ago, unless another connection
// is reading them.
func (c *certificate) get() *tls.Certificate {
	if c.mu.TryLock() {
		defer c.mu.Unlock()
		if time.Since(c.looked) >= certificateInterval {
			c.follow()
		}
	}
	return c.current.Load()
}

// follow reads the files and logs changes. It logs an error only if two reads return it, because files that are being replaced do
// not match for a moment. The caller must hold c.mu.
func (c *certificate) follow() {
	before := c.current.Load()
	err := c.read()
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case err == nil:
		c.reported = ""
	case text == c.seen && text != c.reported:
		c.reported = text
		logEvent(c.log, "reload_failed", fmt.Errorf("tls: %w", err))
	}
	c.seen = text
	if now := c.current.Load(); !slices.EqualFunc(now.Certificate, before.Certificate, bytes.Equal) {
		logEvent(c.log, "reloaded", nil, zap.Strings("what", []string{"tls"}), zap.Time("not_after", now.Leaf.NotAfter))
	}
	c.warn()
}

// reload reads the files at once, and reports expiry again.
func (c *certificate) reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.read()
	if c.seen, c.reported = "", ""; err != nil {
		c.seen, c.reported = err.Error(), err.Error()
	}
	c.warned = ""
	c.warn()
	return err
}

// read reads the pair in the files and uses it, unless it is not valid now and the pair in use is. The caller must hold c.mu.
func (c *certificate) read() error {
	c.looked = time.Now()
	var pem [2][]byte
	for i, name := range []string{c.paths.CertFile, c.paths.KeyFile} {
		var err error
		if pem[i], err = durable.ReadRegular(name, 1<<20); err != nil {
			return err
		}
	}
	pair, err := tls.X509KeyPair(pem[0], pem[1])
	if err != nil {
		return fmt.Errorf("%s: %w", c.paths.CertFile, err)
	}
	before := c.current.Load()
	if err := c.expired(&pair, c.looked); err != nil && before != nil && c.expired(before, c.looked) == nil {
		return fmt.Errorf("%w; the previous certificate stays in use", err)
	}
	c.current.Store(&pair)
	return nil
}

// expired returns the reason why clients reject the certificate of a pair at the time now, or nil.
func (c *certificate) expired(pair *tls.Certificate, now time.Time) error {
	switch leaf := pair.Leaf; {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("%s: the certificate expired at %s", c.paths.CertFile, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("%s: the certificate is not valid before %s", c.paths.CertFile, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// problem returns what is wrong with the certificate in use or with its files, or nil. c may be nil.
func (c *certificate) problem() error {
	if c == nil {
		return nil
	}
	pair, now := c.get(), time.Now()
	c.mu.Lock()
	reported := c.reported
	c.mu.Unlock()
	if reported != "" && c.expired(pair, now) == nil {
		return errors.New(reported)
	}
	return c.ends(pair, now)
}

// ends is like expired, but also returns an error if the certificate expires soon.
func (c *certificate) ends(pair *tls.Certificate, now time.Time) error {
	if end := pair.Leaf.NotAfter; c.expired(pair, now) == nil && end.Sub(now) < certificateWarning {
		return fmt.Errorf("%s: the certificate expires at %s; operator: renew it", c.paths.CertFile, end.UTC().Format(time.RFC3339))
	}
	return c.expired(pair, now)
}

// warn logs once that the certificate in use has expired or expires soon. The caller must hold c.mu.
func (c *certificate) warn() {
	pair := c.current.Load()
	if pair == nil || string(pair.Leaf.Raw) == c.warned || c.ends(pair, time.Now()) == nil {
		return
	}
	c.warned = string(pair.Leaf.Raw)
	logEvent(c.log, "certificate_expires", nil, zap.String("file", c.paths.CertFile), zap.Time("not_before", pair.Leaf.NotBefore),
		zap.Time("not_after", pair.Leaf.NotAfter))
}

// notAfter returns the time when the certificate in use expires.
func (c *certificate) notAfter() time.Time { return c.current.Load().Leaf.NotAfter }
