package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// Values of headers that are the same in every answer; nobody changes them.
var (
	jsonType     = []string{"application/json"}
	gzipCoding   = []string{"gzip"}
	varyEncoding = []string{"Accept-Encoding"}
	statusHit    = []string{"modproxy; hit"}
	statusStale  = []string{"modproxy; hit; detail=stale"}
	statusMiss   = []string{"modproxy; fwd=miss; stored"}
	acceptRanges = []string{"bytes"}
	gzipType     = []string{"application/gzip"}
	cacheForEver = []string{"public, max-age=31536000, immutable"}
	cacheForOne  = []string{"private, max-age=31536000, immutable"}
	cachePrivate = []string{"private, no-cache"}
)

// versions serves a module's versions document.
func (h *Handler) versions(w http.ResponseWriter, r *http.Request, e *Event, q request) error {
	v, err := h.cfg.Registry.Versions(r.Context(), q.module)
	if err != nil {
		return err
	}
	end, err := h.sending.begin(v)
	if err != nil {
		return err
	}
	defer end()
	header := w.Header()
	header["Content-Type"] = jsonType
	header["Vary"] = varyEncoding
	header["Etag"] = []string{v.ETag}
	header["Cache-Status"] = cacheStatus(v)
	if h.cfg.Auth != nil {
		header["Cache-Control"] = cachePrivate
	}
	e.Cache = header["Cache-Status"][0]
	if v.Hit {
		header["Age"] = []string{strconv.FormatInt(max(0, int64(time.Since(v.Time)/time.Second)), 10)}
	}
	if matches(r.Header.Get("If-None-Match"), v.ETag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	body := v.Document
	if acceptsGzip(r.Header["Accept-Encoding"]) {
		header["Content-Encoding"] = gzipCoding
		body = v.Compressed
	}
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(http.StatusOK)
	w.Write(body) // a client that is gone is no concern
	return nil
}

// cacheStatus is RFC 9211's account of how an answer came about.
func cacheStatus(v *modproxy.Versions) []string {
	switch {
	case v.Stale:
		return statusStale
	case v.Hit:
		return statusHit
	}
	return statusMiss
}

// acceptsGzip reports whether Accept-Encoding names gzip without forbidding it
// (RFC 9110, 12.5.3).
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

// matches reports whether an If-None-Match header has the entity tag
// (RFC 9110, 13.1.2: the comparison is weak).
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
