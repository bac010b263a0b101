package oci

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/archive"
)

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
	artifactType = "application/vnd.opentofu.modulepkg"
	layerType    = "archive/zip"
	maxManifest  = 4 << 20 // bytes, as in OpenTofu
)

// manifest is an image manifest (https://github.com/opencontainers/image-spec/blob/v1.1.1/manifest.md).
type manifest struct {
	MediaType    string       `json:"mediaType"`
	ArtifactType string       `json:"artifactType"`
	Layers       []descriptor `json:"layers"`
}

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

// resolve downloads the manifest, of any type, and verifies its digest. It sets v.digest. again reports whether a retry may succeed.
func (v *visit) resolve(ctx context.Context) (body []byte, mediaType string, again bool, err error) {
	part := "manifests/" + v.tag
	if v.digest != "" {
		part = "manifests/" + v.digest
	}
	body, header, again, err := v.document(ctx, egress.Request{
		URL: v.url(part).String(), Header: http.Header{"Accept": {manifestType + ", " + indexType}}, MaxBytes: maxManifest,
	})
	if err == nil {
		err = v.verify(ctx, body, header)
	}
	if err != nil {
		return nil, "", again, fmt.Errorf("manifest: %w", err)
	}
	mediaType, _, _ = mime.ParseMediaType(header.Get("Content-Type"))
	return body, mediaType, false, nil
}

// verify checks that body has the digest of the location, or the digest that the registry gives. It sets v.digest.
func (v *visit) verify(ctx context.Context, body []byte, header http.Header) error {
	digest := v.digest
	if digest == "" { // the registry may use another algorithm for its repository
		digest = header.Get("Docker-Content-Digest")
	}
	if digest == "" {
		digest = fmt.Sprintf("sha256:%x", sha256.Sum256(body))
	}
	if !digestPattern.MatchString(digest) {
		return fmt.Errorf("%w: the registry answered with the digest %.80q", modproxy.ErrInvalid, digest)
	}
	sum, err := archive.ParseChecksum(digest)
	if err == nil {
		err = sum.Verify(ctx, bytes.NewReader(body), int64(len(body)))
	}
	if err == nil {
		v.digest = digest
	}
	return err
}

// read decodes the manifest of a module.
func (m *manifest) read(body []byte, mediaType string) error {
	if mediaType != manifestType {
		return fmt.Errorf("%w: manifest: its type is %.80q; want an image manifest, as OpenTofu does", modproxy.ErrInvalid, mediaType)
	}
	if err := json.Unmarshal(body, m); err != nil {
		return fmt.Errorf("%w: manifest: %w", modproxy.ErrInvalid, err)
	}
	switch {
	case m.MediaType != manifestType:
		return fmt.Errorf("%w: manifest: mediaType is %.80q; want %s", modproxy.ErrInvalid, m.MediaType, manifestType)
	case m.ArtifactType != artifactType:
		return fmt.Errorf("%w: manifest: artifactType is %.80q; want %s, the type of modules", modproxy.ErrInvalid, m.ArtifactType, artifactType)
	}
	return nil
}

// layer returns the layer with the module. As in OpenTofu, layers of other types are ignored.
func (m manifest) layer() (found descriptor, err error) {
	n := 0
	for _, layer := range m.Layers {
		if layer.MediaType == layerType {
			found, n = layer, n+1
		}
	}
	switch {
	case n != 1:
		return found, fmt.Errorf("%w: manifest: %d of its %d layers have the type %s; want one", modproxy.ErrInvalid, n, len(m.Layers), layerType)
	case !digestPattern.MatchString(found.Digest):
		return found, fmt.Errorf("%w: manifest: %.80q is not the digest of a layer", modproxy.ErrInvalid, found.Digest)
	}
	return found, nil
}

// document requests a small document. again reports whether a retry may succeed.
func (v *visit) document(ctx context.Context, r egress.Request) (body []byte, header http.Header, again bool, err error) {
	defer modproxy.MeterOf(ctx).Begin()()
	r.NoHedging = true // the limiter of a question hedges, or does not
	res, again, err := v.get(ctx, r)
	if err != nil {
		return nil, nil, again, err
	}
	defer res.Body.Close()
	if v.source.OnAnswer != nil {
		v.source.OnAnswer()
	}
	if body, err = io.ReadAll(res.Body); err != nil {
		again, err = fetch.Failed(v.source.Budget, egress.MayPass(err), fetch.Outgoing(err))
	}
	return body, res.Header, again, err
}
