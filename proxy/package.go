package proxy

import (
	"io"
	"net/http"
	"strconv"
	"time"
)

// archive serves the package of a version: GET, HEAD, ranges, conditions.
func (h *Handler) archive(w http.ResponseWriter, r *http.Request, e *Event, q request) error {
	p, err := h.cfg.Registry.Package(r.Context(), q.module, q.version)
	if err != nil {
		return err
	}
	defer p.Close()
	header := w.Header()
	header["Content-Type"] = gzipType
	header["Cache-Control"] = cacheForEver
	if h.cfg.Auth != nil {
		header["Cache-Control"] = cacheForOne
	}
	header["Etag"] = []string{`"` + p.Digest.String() + `"`}
	if memory, ok := p.ReadSeekCloser.(io.WriterTo); ok && wantsAll(r) {
		header["Accept-Ranges"] = acceptRanges
		header["Content-Length"] = []string{strconv.FormatInt(p.Size, 10)}
		w.WriteHeader(http.StatusOK)
		memory.WriteTo(w) // a client that is gone is no concern
		return nil
	}
	content := &watched{ReadSeeker: p}
	http.ServeContent(w, r, "", time.Time{}, content)
	if content.err != nil {
		// The client must not take what it got for the whole package.
		e.Err = content.err
		panic(http.ErrAbortHandler)
	}
	return nil
}

// wantsAll reports whether r is for the whole of what it asks for, whatever the
// client has of it. A package in memory is then written as it lies there.
func wantsAll(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	for _, name := range []string{"Range", "If-None-Match", "If-Match", "If-Modified-Since", "If-Unmodified-Since"} {
		if len(r.Header[name]) > 0 {
			return false
		}
	}
	return true
}

// watched remembers the error that ended a package before its end.
type watched struct {
	io.ReadSeeker
	err error
}

func (c *watched) Read(p []byte) (int, error) {
	n, err := c.ReadSeeker.Read(p)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}
