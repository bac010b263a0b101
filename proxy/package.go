package proxy

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/modproxy/modproxy"
)

// archive serves the package of a version: GET, HEAD, ranges, conditions.
func (h *Handler) archive(w http.ResponseWriter, r *http.Request, e *Event, q request) error {
	p, err := h.open(r, q)
	if err != nil {
		return err
	}
	defer p.Close()
	if rec, ok := w.(*recorder); ok {
		defer rec.endWith(r.Context())()
	}
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

// open opens the package that r is for. What is answered to other requests than
// for the whole, which is checked as it goes out, is said of a package that has
// been checked. One that turns out to be damaged is asked for again, to be had when
// it is mended: clients ask for HEAD before they ask for the package.
func (h *Handler) open(r *http.Request, q request) (*modproxy.Package, error) {
	for try := 1; ; try++ {
		p, err := h.cfg.Registry.Package(r.Context(), q.module.At(q.version))
		if err != nil || wantsAll(r) {
			return p, err
		}
		if err = check(p); err == nil {
			return p, nil
		}
		p.Close()
		if try == 2 {
			return nil, err
		}
	}
}

// check finds out whether p is what it should be: before a part of it is read, all
// of it is checked, or what is read of one that was checked before (see the Package
// method of the cache).
func check(p *modproxy.Package) error {
	if _, inMemory := p.ReadSeekCloser.(io.WriterTo); inMemory {
		return nil
	}
	if _, err := p.Seek(0, io.SeekStart); err != nil {
		return err
	}
	var first [1]byte
	if _, err := p.Read(first[:]); err != nil && err != io.EOF {
		return err
	}
	_, err := p.Seek(0, io.SeekStart)
	return err
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
