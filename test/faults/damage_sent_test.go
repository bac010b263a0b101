//go:build linux

package faults_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"
)

// If a package is damaged while it is sent, the client receives the verified bytes, or the answer is cut off.
func TestDamageWhileItIsSent(t *testing.T) {
	const size = 10 << 20
	t.Setenv("MODPROXY_CACHE_MEMORY", "1MiB")
	r := newProxy(t, with{registry: &sized{bytes: size}})
	r.client.Timeout = time.Minute
	r.start()
	r.ready()
	p := r.keep("large")
	for _, of := range []string{"", "bytes=0-", "bytes=1000-"}[:rounds(2, 3)] {
		// At the end, and on the way; beyond the size of buffers in both cases.
		for _, at := range []int{len(p.body) - 1, len(p.body) * 3 / 4} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", r.url+p.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if of != "" {
				req.Header.Set("Range", of)
			}
			resp, err := narrow().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if _, err := io.CopyN(&got, resp.Body, 64<<10); err != nil {
				t.Fatal(err)
			}
			if err := flip(p.file, int64(at)); err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(&got, resp.Body)
			resp.Body.Close()
			from := len(p.body) - int(resp.ContentLength)
			if (of != "" || err == nil) && !bytes.HasPrefix(p.body[from:], got.Bytes()) {
				t.Errorf("%q, byte %d of %d damaged: other bytes; %v", of, at, len(p.body), err)
			}
			if err == nil {
				t.Errorf("%q, byte %d of %d damaged: %d bytes of %d, and no error", of, at, len(p.body), got.Len(), resp.ContentLength)
			}
			if a := r.ask("GET", p.path, "Range", "bytes=0-9"); a.Err != nil || !bytes.Equal(a.Body, p.body[:10]) { // it was mended
				t.Errorf("%q, byte %d of %d damaged: afterwards %v", of, at, len(p.body), a)
			}
		}
	}
	r.stop()
}
