package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// Values of headers that many answers have. They are not changed.
var (
	jsonType              = []string{"application/json"}
	gzipCoding            = []string{"gzip"}
	varyEncoding          = []string{"Accept-Encoding"}
	acceptRanges          = []string{"bytes"}
	gzipType              = []string{"application/gzip"}
	cacheForEver          = []string{"public, max-age=31536000, immutable"}
	cacheForEverPrivately = []string{"private, max-age=31536000, immutable"}
	cachePrivate          = []string{"private, no-cache"}
)

// serveVersions serves the versions document of a module.
func (h *Handler) serveVersions(w *response, r *http.Request, e *Event, q request) error {
	v, err := h.cfg.Registry.Versions(r.Context(), q.Module)
	if err != nil {
		return err
	}
	release, err := h.documents.hold(v.Document, len(v.Compressed))
	if err != nil {
		return err
	}
	defer release()
	h.describe(w, e, v)
	if matches(r.Header.Get("If-None-Match"), v.ETag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	body := v.Document
	if acceptsGzip(r.Header["Accept-Encoding"]) {
		w.Header()["Content-Encoding"] = gzipCoding
		body = v.Compressed
	}
	h.writeDocument(w, body)
	return nil
}

// describe sets the headers of an answer with v, and with the news that it has not changed.
func (h *Handler) describe(w *response, e *Event, v *modproxy.Versions) {
	switch {
	case v.Stale:
		e.Cache = "modproxy; hit; detail=stale"
	case v.Hit:
		e.Cache = "modproxy; hit"
	default:
		e.Cache = "modproxy; fwd=miss; stored"
	}
	header := w.Header()
	header["Cache-Status"] = []string{e.Cache} // RFC 9211
	header["Vary"] = varyEncoding
	header["Etag"] = []string{v.ETag}
	if v.Hit {
		header["Age"] = []string{strconv.FormatInt(max(0, int64(time.Since(v.Time)/time.Second)), 10)}
	}
	if h.cfg.Auth != nil {
		header["Cache-Control"] = cachePrivate
	}
}

// writeDocument writes a JSON document of a registry. A client that is gone does not matter.
func (h *Handler) writeDocument(w *response, document []byte) {
	header := w.Header()
	header["Content-Type"] = jsonType
	header["Content-Length"] = []string{strconv.Itoa(len(document))}
	if h.cfg.Auth != nil {
		header["Cache-Control"] = cachePrivate
	}
	w.Write(document)
}

// acceptsGzip reports whether Accept-Encoding names gzip without forbidding it (RFC 9110, 12.5.3).
func acceptsGzip(header []string) bool {
	for _, line := range header {
		for coding := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(strings.TrimSpace(coding), ";")
			if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
				continue
			}
			q, hasQ := strings.CutPrefix(strings.ReplaceAll(strings.ToLower(params), " ", ""), "q=")
			weight, err := strconv.ParseFloat(q, 64)
			return !hasQ || err == nil && weight > 0
		}
	}
	return false
}

// matches reports whether an If-None-Match header has the entity tag. The comparison is weak (RFC 9110, 13.1.2).
func matches(header, etag string) bool {
	if header == "" {
		return false
	}
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
		if candidate == etag || candidate == "*" {
			return true
		}
	}
	return false
}
