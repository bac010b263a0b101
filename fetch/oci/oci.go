// Package oci downloads modules from OCI registries, and lists the tags of their repositories.
//
// A [Getter] is a [fetch.Getter] for a [fetch.Table]:
//
//	g := &oci.Getter{Egress: egress, Credentials: credentials, Scratch: dir, MaxReceived: 1 << 30}
//	table.Getters["oci"] = g
//
// Invariants: a location has the same meaning as for OpenTofu 1.10 and newer (internal/getmodules/oci_getter.go): the artifact is one image
// manifest of type application/vnd.opentofu.modulepkg with one layer of type archive/zip, never an index. The commit of a package is
// the digest of its manifest. The bytes of manifests and layers are used only if they have their digest and size. A credential is sent only
// to the registry for which it is configured, and to the host of its token service. A redirect to another host carries neither a
// credential nor a token.
//
// The protocol is https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md, with tokens as in
// https://distribution.github.io/distribution/spec/auth/token/.
package oci

import (
	"context"
	"fmt"
	"net/http"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/archive"
	"github.com/modproxy/modproxy/pack"
)

// Getter is a [fetch.Getter] for repositories of OCI registries. It is safe for concurrent use.
type Getter struct {
	Egress      *egress.Client
	Credentials fetch.Credentials
	Scratch     string // the directory for archives while they are received
	MaxReceived int64  // bytes of an archive
}

var _ fetch.Getter = (*Getter)(nil)

// Check implements [fetch.Getter].
func (g *Getter) Check(ctx context.Context, s fetch.Source) error {
	r, err := parse(s)
	if err == nil {
		err = g.Egress.Check(ctx, r.url(""))
	}
	return fetch.Outgoing(err)
}

// Commit implements [fetch.Getter]. It returns the hexadecimal digits of the digest of the manifest.
func (g *Getter) Commit(ctx context.Context, s fetch.Source) (string, error) {
	v, err := g.visit(s)
	if err != nil {
		return "", err
	}
	if v.digest == "" {
		if _, _, _, err = v.resolve(ctx); err != nil {
			return "", v.failed(v.String(), err)
		}
	}
	return digits(v.digest), nil
}

// Fetch implements [fetch.Getter].
func (g *Getter) Fetch(ctx context.Context, s fetch.Source, tree *pack.Builder) (got fetch.Result, err error) {
	v, err := g.visit(s)
	if err != nil {
		return got, err
	}
	got.From.URL, got.Immutable = v.repository(), v.digest != ""
	at := v.String()
	if err = v.fetch(ctx, tree); err != nil {
		return got, v.failed(at, err)
	}
	got.From.Commit = digits(v.digest)
	return got, nil
}

// fetch adds the files of the layer to tree. Afterwards, v has the digest of the manifest.
func (v *visit) fetch(ctx context.Context, tree *pack.Builder) error {
	var m manifest
	err := fetch.Retry(ctx, func() (bool, error) {
		body, mediaType, again, err := v.resolve(ctx)
		if err != nil {
			return again, err
		}
		return false, m.read(body, mediaType)
	})
	if err != nil {
		return err
	}
	layer, err := m.layer()
	if err != nil {
		return err
	}
	if layer.Size > v.MaxReceived {
		return fmt.Errorf("%w: its archive has %d bytes, more than %d (operator: fetch.max_received)", modproxy.ErrInvalid, layer.Size, v.MaxReceived)
	}
	download := fetch.Download{Scratch: v.Scratch, Most: v.MaxReceived, Budget: v.source.Budget,
		Get: func(ctx context.Context, most int64) (*http.Response, bool, error) {
			return v.get(ctx, egress.Request{URL: v.url("blobs/" + layer.Digest).String(), MaxBytes: most, Archive: true})
		}}
	file, size, err := download.Receive(ctx)
	if err != nil {
		return err
	}
	defer file.Close()
	if size != layer.Size {
		return fmt.Errorf("%w: its archive has %d bytes, but its manifest says %d", modproxy.ErrInvalid, size, layer.Size)
	}
	sum, err := archive.ParseChecksum(layer.Digest)
	if err == nil {
		err = sum.Verify(ctx, file, size)
	}
	if err != nil {
		return err
	}
	return archive.Unpack(ctx, file, size, archive.Zip, tree)
}
