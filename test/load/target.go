package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// A target is a version of a module, with the first answers to clients about it, which must never change.
type target struct {
	module, version string // ns/name/system
	token           string

	signed   atomic.Pointer[string] // the last signed path of the package
	list     reply
	sum      uint32
	size     int64
	digest   string // of the package
	answered bool   // the fields above are known
}

func (t *target) address() string { return registryHost + "/" + t.module }

func (t *target) path(k kind) string {
	switch k {
	case versions:
		return "/" + registryHost + "/v1/modules/" + t.module + "/versions"
	case download:
		return "/" + registryHost + "/v1/modules/" + t.module + "/" + t.version + "/download"
	case archive:
		if path := t.signed.Load(); path != nil {
			return *path
		}
	case health:
	}
	return "/-/healthz"
}

// ask sends a request about the target, and returns an error for a wrong answer: other bytes than before, or fewer than announced. An
// unanswered request is not wrong.
func (t *target) ask(ctx context.Context, c *conn, k kind) (reply, error) {
	token := t.token
	if k == archive || k == health {
		token = "" // as clients do: the path is signed
	}
	r := c.ask(ctx, t.path(k), token, false)
	if r.err != nil || r.status >= 300 {
		return r, nil
	}
	switch k {
	case versions:
		if !t.answered || r.sum == t.list.sum && r.size == t.list.size {
			return r, nil
		}
		return r, t.sameList(ctx, c)
	case download:
		return r, t.located(r)
	case archive:
		if t.answered && (r.sum != t.sum || r.size != t.size) {
			return r, fmt.Errorf("%s %s: %d bytes with the sum %08x, and were %d with %08x", t.module, t.version, r.size, r.sum, t.size, t.sum)
		}
	case health:
	}
	return r, nil
}

// located reads the path of the package from a location.
func (t *target) located(r reply) error {
	location, err := url.Parse(r.header.Get("X-Terraform-Get"))
	if err != nil || location.Path == "" || r.status != http.StatusNoContent {
		return fmt.Errorf("%s %s: a client is sent to %q with status %d", t.module, t.version, r.header.Get("X-Terraform-Get"), r.status)
	}
	path := location.RequestURI()
	if before := t.signed.Load(); before == nil || *before != path {
		t.signed.Store(&path)
	}
	return nil
}

// sameList returns an error if a list differs that has another compression than before.
func (t *target) sameList(ctx context.Context, c *conn) error {
	r := c.ask(ctx, t.path(versions), t.token, true)
	if !r.complete || r.status != http.StatusOK {
		return nil
	}
	is, err := plain(r)
	if err != nil {
		return fmt.Errorf("%s: versions: %w", t.module, err)
	}
	if was, err := plain(t.list); err != nil || !bytes.Equal(is, was) {
		return fmt.Errorf("%s: other versions: %.200q, and were %.200q, %w", t.module, is, was, err)
	}
	return nil
}

// plain returns the body of an answer without compression.
func plain(r reply) ([]byte, error) {
	if r.header.Get("Content-Encoding") != "gzip" {
		return r.body, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// first sends all requests of an installation for the target, and records the answers as right. The package must match its ETag.
func (t *target) first(ctx context.Context, c *conn) error {
	list := c.ask(ctx, t.path(versions), t.token, true)
	if list.err != nil || list.status != http.StatusOK {
		return fmt.Errorf("%s: %v", t.path(versions), &list)
	}
	if err := t.install(ctx, c); err != nil {
		return err
	}
	t.list, t.answered = list, true
	return nil
}

// install requests the location of the package, and the package.
func (t *target) install(ctx context.Context, c *conn) error {
	r, err := t.ask(ctx, c, download)
	if err == nil && (r.err != nil || r.status != http.StatusNoContent) {
		err = &refused{t.path(download), r}
	}
	if err != nil {
		return err
	}
	r = c.ask(ctx, t.path(archive), "", true)
	if r.err != nil || r.status != http.StatusOK {
		return &refused{t.path(archive), r}
	}
	sum := sha256.Sum256(r.body)
	digest := hex.EncodeToString(sum[:])
	if tag := strings.Trim(r.header.Get("Etag"), `"`); tag != digest {
		return fmt.Errorf("%s: its bytes are %s, and its Etag is %s", t.path(archive), digest, tag)
	}
	if t.digest != "" && t.digest != digest {
		return fmt.Errorf("%s: it is %s, and was %s", t.path(archive), digest, t.digest)
	}
	t.digest, t.sum, t.size = digest, r.sum, r.size
	return nil
}

// refused is the error of a package that was not served.
type refused struct {
	path string
	reply
}

func (r *refused) Error() string { return r.path + ": " + r.reply.String() }
