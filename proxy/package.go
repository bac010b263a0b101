package proxy

import (
	"io"
	"net/http"
	"time"

	"github.com/modproxy/modproxy/rewrite"
)

// archive serves the package of a version: GET, HEAD, ranges, conditions.
func (h *Handler) archive(w http.ResponseWriter, r *http.Request, e *Event, q request) error {
	m, version, err := rewrite.ParsePackagePath(r.URL.EscapedPath())
	if err != nil {
		return notFound(err.Error())
	}
	m.Host = q.module.Host // the one that is among the upstreams
	p, err := h.cfg.Registry.Package(r.Context(), m, version)
	if err != nil {
		return err
	}
	defer p.Close()
	header := w.Header()
	header["Content-Type"] = gzipType
	header["Cache-Control"] = cacheForEver
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
