package proxy_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/proxy"
	"github.com/modproxy/modproxy/store"
)

// blobs is a registry whose packages are read as package store reads them. Each package has the digest of good and the bytes of is.
type blobs struct {
	modproxy.Registry
	good, is []byte
}

// blob is a [store.Blob] in memory.
type blob struct{ *bytes.Reader }

func (blob) Close() error { return nil }

// steady ignores a Seek to the offset that it has already, as a buffered reader may.
type steady struct {
	modproxy.Body
	offset int64
}

func (s *steady) Read(p []byte) (int, error) {
	n, err := s.Body.Read(p)
	s.offset += int64(n)
	return n, err
}

func (s *steady) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekStart && offset == s.offset {
		return offset, nil
	}
	at, err := s.Body.Seek(offset, whence)
	if err == nil {
		s.offset = at
	}
	return at, err
}

func (b *blobs) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	d := modproxy.Digest(sha256.Sum256(b.good))
	body := store.NewChecker().Open(blob{bytes.NewReader(b.is)}, d)
	return &modproxy.Package{Body: &steady{Body: body}, Digest: d, Size: int64(len(b.is))}, nil
}

// A wrapper that ignores redundant seeks does not prevent the verification of a package before its headers or a part are sent.
func TestVerifyBehindWrapper(t *testing.T) {
	good := bytes.Repeat([]byte("good"), 100_000)
	wrong := bytes.Clone(good)
	wrong[len(wrong)/2] ^= 1
	for name, r := range map[string]struct{ method, ranged string }{
		"HEAD":       {http.MethodHead, ""},
		"first part": {http.MethodGet, "bytes=0-9"},
		"from start": {http.MethodGet, "bytes=0-"},
		"last part":  {http.MethodGet, "bytes=-10"},
	} {
		for _, is := range [][]byte{good, wrong} {
			h := newHandler(t, func(c *proxy.Config, _ *scripted) { c.Registry = &blobs{c.Registry, good, is} })
			request := httptest.NewRequest(r.method, archive, nil)
			want := http.StatusOK
			if r.ranged != "" {
				request.Header.Set("Range", r.ranged)
				want = http.StatusPartialContent
			}
			if &is[0] == &wrong[0] {
				want = http.StatusBadGateway
			}
			w := httptest.NewRecorder()
			func() {
				defer func() {
					if cause := recover(); cause != nil {
						t.Errorf("%s: %v after %d", name, cause, w.Code)
					}
				}()
				h.ServeHTTP(w, request)
			}()
			if w.Code != want {
				t.Errorf("%s: %d, want %d", name, w.Code, want)
			}
		}
	}
}
