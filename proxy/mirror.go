package proxy

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/protocol"
	"github.com/modproxy/modproxy/release"
)

// serveMirrorIndex lists the versions of a provider in the form of the provider network mirror protocol.
func (h *Handler) serveMirrorIndex(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request) error {
	v, err := h.cfg.Registry.Versions(r.Context(), q.Address)
	if err != nil {
		return err
	}
	setListingStatus(w, e, v)
	versions := make(map[string]struct{}, len(v.List))
	for _, l := range v.List {
		versions[l.Version.String()] = struct{}{}
	}
	return h.writeAnswer(w, r, map[string]any{"versions": versions})
}

// mirrored is the package of a provider for one platform in the form of the provider network mirror protocol.
type mirrored struct {
	URL    string   `json:"url"`
	Hashes []string `json:"hashes"`
}

// serveMirrorVersion lists the packages of a version of a provider in the form of the provider network mirror protocol, each with
// all known hashes. It downloads the release and no package: a client wants one of the packages only.
func (h *Handler) serveMirrorVersion(w *httpx.Response, r *http.Request, q protocol.Request) error {
	o, err := h.release(r.Context(), q.Ref)
	if err != nil {
		return err
	}
	var had []modproxy.Platform
	if h.cfg.Offline {
		had = h.listed(r.Context(), q.Ref)
	}
	archives := make(map[string]mirrored, len(o.Archives))
	for _, a := range o.Archives {
		if h.cfg.Offline && !slices.Contains(had, a.Platform) {
			continue // the client may have another installation method for it
		}
		v := q.ForPlatform(a.Platform)
		url, err := h.fileURL(r, protocol.Request{Kind: protocol.KindProviderPackage, Ref: v})
		if err != nil {
			return err
		}
		archives[a.Platform.String()] = mirrored{url, h.hashes(r.Context(), v, a.Digest, o.Packages[a.Platform.String()])}
	}
	return h.writeAnswer(w, r, map[string]any{"archives": archives})
}

// hashes returns the known hashes of the package v with the digest d: the recorded ones if it was downloaded, otherwise those that its
// registry states.
func (h *Handler) hashes(ctx context.Context, v modproxy.Ref, d modproxy.Digest, stated release.ArchiveHashes) []string {
	known := []string{"zh:" + d.String()}
	if h.cfg.Records != nil {
		if rec, err := h.cfg.Records.Lookup(ctx, v); err == nil && rec.Sum == modproxy.NewSum(d) {
			for _, sum := range rec.Hashes.All() {
				known = append(known, string(sum))
			}
			return known
		}
	}
	for _, hash := range stated.Hashes {
		if strings.HasPrefix(hash, "h1:") {
			known = append(known, hash)
		}
	}
	return known
}
