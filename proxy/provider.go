package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/protocol"
	"github.com/modproxy/modproxy/release"
)

// providerWait is how long a request about a provider may take: clients give up after ten seconds, and repeat it.
const providerWait = 8 * time.Second

var (
	zipType       = []string{"application/zip"}
	sumsType      = []string{"text/plain; charset=utf-8"}
	signatureType = []string{"application/pgp-signature"}
	noStore       = []string{"private, no-store"}
)

// serveProvider answers a question about a provider.
func (h *Handler) serveProvider(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request, segment string) error {
	if q.IsPackage() {
		return providerError(h.serveZip(w, r, e, q, segment))
	}
	ctx, cancel := context.WithDeadline(r.Context(), e.Time.Add(providerWait))
	defer cancel()
	var met modproxy.LastError
	err := h.answerProvider(w, r.WithContext(modproxy.WithLastError(ctx, &met)), e, q)
	if errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil {
		err = fmt.Errorf("%s: upstream has not answered within %v; the request continues", q.Base(), providerWait)
		if last := met.Get(); last != nil {
			err = fmt.Errorf("%w; it last failed with: %w", err, last)
		}
		err = httpx.Later(0, err)
	}
	return providerError(err)
}

func (h *Handler) answerProvider(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request) error {
	switch q.Kind {
	case protocol.KindProviderVersions:
		return h.serveVersions(w, r, e, q)
	case protocol.KindProviderDownload:
		return h.serveDownload(w, r, e, q)
	case protocol.KindMirrorIndex:
		return h.serveMirrorIndex(w, r, e, q)
	case protocol.KindMirrorVersion:
		return h.serveMirrorVersion(w, r, q)
	default: // the files of a release
	}
	o, err := h.release(r.Context(), q.Ref)
	switch {
	case err != nil:
		return err
	case q.Kind == protocol.KindProviderSignature:
		return h.writeFile(w, r, signatureType, o.Signature)
	}
	return h.writeFile(w, r, sumsType, o.Sums)
}

// providerError returns err for requests about providers. About a 403, clients print that they need credentials, and not the reason.
func providerError(err error) error {
	if own := (*protocol.Error)(nil); errors.Is(err, modproxy.ErrDenied) && !errors.As(err, &own) {
		return protocol.WithStatus(http.StatusConflict, err)
	}
	return err
}

// download is the location of the package of a provider in the form of the providers.v1 protocol.
type download struct {
	Protocols    []string                         `json:"protocols,omitempty"`
	OS           string                           `json:"os"`
	Arch         string                           `json:"arch"`
	File         string                           `json:"filename"`
	URL          string                           `json:"download_url"`
	SumsURL      string                           `json:"shasums_url"`
	SignatureURL string                           `json:"shasums_signature_url"`
	Digest       modproxy.Digest                  `json:"shasum"`
	Keys         signingKeys                      `json:"signing_keys"`
	Packages     map[string]release.ArchiveHashes `json:"packages,omitempty"` // as the registry states them
}

type signingKeys struct {
	GPG []release.Key `json:"gpg_public_keys"`
}

// serveDownload answers with the location of the package of a provider for one platform, and starts its download.
func (h *Handler) serveDownload(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request) error {
	v := q.Base()
	platform, _ := q.Platform()
	o, a, err := h.archive(r.Context(), v, platform)
	if err != nil {
		return err
	}
	if o.blankLine != nil {
		return protocol.WithStatus(http.StatusConflict, fmt.Errorf("%s: %w", v, o.blankLine))
	}
	l, err := h.cfg.Registry.Location(r.Context(), q.Ref)
	if err != nil {
		return err
	}
	d := download{
		Protocols: o.Protocols, OS: a.OS, Arch: a.Arch, File: a.File, Digest: a.Digest, Packages: o.Packages,
		Keys: signingKeys{append([]release.Key{}, o.Keys...)}, // clients do not accept null
	}
	for kind, to := range map[protocol.Kind]*string{
		protocol.KindProviderPackage: &d.URL, protocol.KindProviderSums: &d.SumsURL, protocol.KindProviderSignature: &d.SignatureURL,
	} {
		of := protocol.Request{Kind: kind, Ref: v}
		if kind == protocol.KindProviderPackage {
			of.Ref = q.Ref
		}
		if *to, err = h.fileURL(r, of); err != nil {
			return err
		}
	}
	setCacheStatus(w, e, l.Kept)
	return h.writeAnswer(w, r, d)
}

// fileURL returns the URL of a file, signed where clients are identified: they request files without a credential.
func (h *Handler) fileURL(r *http.Request, q protocol.Request) (string, error) {
	path := q.Path()
	if h.cfg.Auth != nil {
		var err error
		if path, err = h.cfg.Auth.Path(auth.PrincipalOf(r.Context()), path, q.Address, time.Now()); err != nil {
			return "", err
		}
	}
	return h.origin(r) + path, nil
}

func setCacheStatus(w *httpx.Response, e *httpx.Event, kept bool) {
	status := cacheMiss
	if kept {
		status = cacheHit
	}
	e.Cache = status[0]
	w.Header()["Cache-Status"] = status
}

// writeAnswer answers with v as JSON, which may have signed paths.
func (h *Handler) writeAnswer(w *httpx.Response, r *http.Request, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return h.writeFile(w, r, httpx.JSONType, append(body, '\n'))
}

// writeFile answers with all of a small file.
func (h *Handler) writeFile(w *httpx.Response, r *http.Request, contentType []string, body []byte) error {
	release, err := h.documents.Hold(body, 0)
	if err != nil {
		return err
	}
	defer release()
	w.WriteFile(r, contentType, h.private(noStore), body)
	return nil
}

// serveZip serves the package of a provider for one platform, also while it is downloaded. It answers HEAD, and clients that have the
// package, from the release, without opening the package.
func (h *Handler) serveZip(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request, segment string) error {
	v := q.Base()
	platform, _ := q.Platform()
	_, a, err := h.archive(r.Context(), v, platform)
	if err != nil {
		return err
	}
	etag := `"` + a.Digest.String() + `"`
	had := httpx.Matches(r.Header.Get("If-None-Match"), etag)
	if r.Method != http.MethodHead && !had {
		return h.servePackage(w, r, e, q, segment)
	}
	l, err := h.cfg.Registry.Location(r.Context(), q.Ref) // starts the download
	if err != nil {
		return err
	}
	setCacheStatus(w, e, l.Kept)
	h.setPackageHeader(w, q, a.Digest)
	if had {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if l.Kept { // without a length, Accept-Ranges would mean an empty file
		p, err := h.cfg.Registry.Package(r.Context(), q.Ref)
		if err != nil {
			return err
		}
		defer p.Close()
		w.Header()["Accept-Ranges"] = acceptRanges
		w.Header()["Content-Length"] = []string{strconv.FormatInt(p.Size, 10)}
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
