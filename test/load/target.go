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

// A target is a version of a module, and what clients were answered about it first, which must never change.
type target struct {
	module, version string // ns/name/system
	token           string

	signed   atomic.Pointer[string] // the path of the package, as clients were last told
	list     reply
	sum      uint32
	size     int64
	digest   string // of the package
	answered bool   // the above is known
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

// ask asks a question about the target, and returns what is wrong with the answer: other bytes than before, or none of
// those that were announced. That something could not be answered is nothing wrong.
func (t *target) ask(ctx context.Context, c *conn, k kind) (reply, error) {
	token := t.token
	if k == archive || k == health {
		token = "" // as the clients do: the path is signed
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

// located takes the path of the package from where a client is sent.
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

// sameList says what is wrong with a list that was compressed otherwise than before.
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

// plain is the body of an answer, as it was before it was compressed.
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

// first asks everything about the target, as a client that installs it does, and has the answers counted as right. The
// package must be what its Etag says.
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

// install asks where the package is, and for it.
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

// refused is the error of a package that could not be had.
type refused struct {
	path string
	reply
}

func (r *refused) Error() string { return r.path + ": " + r.reply.String() }
