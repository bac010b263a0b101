package proxy

import (
	"io"
	"net/http"
	"time"
)

// archive serves the package of a version: GET, HEAD, ranges, conditions.
func (h *Handler) archive(w http.ResponseWriter, r *http.Request, e *Event, q request, segment string) error {
	r, err := h.identifyPackage(r, e, segment, q.module, q.version)
	if err != nil {
		return err
	}
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
	content := &watched{ReadSeeker: p}
	http.ServeContent(w, r, "", time.Time{}, content)
	if content.err != nil {
		// The client must not take what it got for the whole package.
		e.Err = content.err
		panic(http.ErrAbortHandler)
	}
	return nil
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
