package proxy

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/protocol"
)

// servePackage serves the package of a version, with ranges and conditions, for as long as the client is identified.
func (h *Handler) servePackage(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request, segment string) error {
	ctx, stop := h.whileIdentified(r.Context(), segment)
	defer stop()
	p, err := h.openPackage(ctx, r, q)
	if err != nil {
		if ended := httpx.EndOf(ctx); ended != nil {
			return ended
		}
		return err
	}
	defer p.Close()
	defer w.CutWhenEnded(ctx)()
	w.OnlySends()
	h.setPackageHeader(w, q, p.Digest)
	if mayBePartial(q) {
		setCacheStatus(w, e, p.Partial == nil)
	}
	if e.Err = send(w, r, p); e.Err != nil {
		panic(http.ErrAbortHandler) // the client must not take the part that it received for the whole package
	}
	return nil
}

// setPackageHeader sets the headers that are known before the package is open.
func (h *Handler) setPackageHeader(w *httpx.Response, q protocol.Request, d modproxy.Digest) {
	header := w.Header()
	switch q.Address.Kind() {
	case modproxy.Module:
		header["Content-Type"] = gzipType
	case modproxy.Provider:
		header["Content-Type"] = zipType
	}
	header["Cache-Control"] = cacheForEver
	if h.cfg.Auth != nil {
		header["Cache-Control"] = cacheForEverPrivately
	}
	header["Etag"] = w.Value(`"` + d.String() + `"`)
}

// send writes the part of p that r requests. It returns the error of p, and nil if the client has gone.
func send(w *httpx.Response, r *http.Request, p *modproxy.Package) error {
	if isPlainGET(r) {
		header := w.Header()
		header["Accept-Ranges"] = acceptRanges
		header["Content-Length"] = w.Value(strconv.FormatInt(p.Size, 10))
		w.WriteHeader(http.StatusOK)
		if _, err := io.Copy(w, p.Body); w.Failed() == nil {
			return err
		}
		return nil
	}
	content := &errCapture{ReadSeeker: p.Body}
	http.ServeContent(w, r, "", time.Time{}, content)
	if w.Failed() == nil {
		return content.err
	}
	return nil
}

// openPackage opens the package that r is for. A whole package is verified while it is sent. For any other answer, openPackage
// verifies the package first. A damaged package is requested a second time, because the cache then replaces it.
func (h *Handler) openPackage(ctx context.Context, r *http.Request, q protocol.Request) (*modproxy.Package, error) {
	if mayBePartial(q) {
		ctx = modproxy.AllowPartial(ctx)
	}
	for try := 1; ; try++ {
		p, err := h.cfg.Registry.Package(ctx, q.Ref)
		if err != nil || isPlainGET(r) {
			return p, err
		}
		arriving := p.Partial != nil
		if arriving && !wantsPart(r) { // the headers are known before the download ends
			return p, nil
		}
		if err = verifyWhole(ctx, p); err == nil {
			return p, nil
		}
		p.Close()
		if arriving || try == 2 {
			return nil, err
		}
	}
}

// mayBePartial reports whether the package of q may be sent while its download is in progress.
func mayBePartial(q protocol.Request) bool {
	switch q.Address.Kind() {
	case modproxy.Provider:
		return true
	case modproxy.Module:
	}
	return false
}

// verifyWhole verifies p, and reads its first byte: if p was verified earlier, the read finds a file that is unreadable since.
func verifyWhole(ctx context.Context, p *modproxy.Package) error {
	if err := p.Verify(ctx); err != nil {
		return err
	}
	if _, err := p.Read(make([]byte, 1)); err != nil && err != io.EOF {
		return err
	}
	_, err := p.Seek(0, io.SeekStart)
	return err
}

// wantsPart reports whether the answer to r may have a part of the package as its body.
func wantsPart(r *http.Request) bool { return r.Method == http.MethodGet && len(r.Header["Range"]) > 0 }

// isPlainGET reports whether r requests a whole package without conditions.
func isPlainGET(r *http.Request) bool {
	conditions := []string{"Range", "If-None-Match", "If-Match", "If-Modified-Since", "If-Unmodified-Since"}
	has := func(name string) bool { return len(r.Header[name]) > 0 }
	return r.Method == http.MethodGet && !slices.ContainsFunc(conditions, has)
}

// errCapture stores the error of a read, which [http.ServeContent] does not return.
type errCapture struct {
	io.ReadSeeker
	err error
}

func (c *errCapture) Read(p []byte) (int, error) {
	n, err := c.ReadSeeker.Read(p)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// SendTo implements [modproxy.Sender].
func (c *errCapture) SendTo(w io.Writer, n int64) (written int64, err error) {
	if from, ok := c.ReadSeeker.(modproxy.Sender); ok {
		if written, err = from.SendTo(w, n); err != nil {
			c.err = err
		}
		return written, err
	}
	return io.CopyN(struct{ io.Writer }{w}, c, n)
}
