package egress_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/egress"
)

func zipped(b []byte) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	w.Write(b)
	w.Close()
	return buf.Bytes()
}

func TestBodiesAreBoundedAndWhole(t *testing.T) {
	const max = 1000
	full := bytes.Repeat([]byte("x"), max)
	raw := func(w http.ResponseWriter, answer string) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		io.WriteString(conn, answer)
		conn.Close()
	}
	encoded := func(coding string, b []byte) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", coding)
			w.Write(b)
		}
	}
	answers := map[string]func(w http.ResponseWriter){
		"/full":     func(w http.ResponseWriter) { w.Write(full) },
		"/chunked":  func(w http.ResponseWriter) { w.Write(full[:10]); w.(http.Flusher).Flush(); w.Write(full[10:]) },
		"/over":     func(w http.ResponseWriter) { w.Write(append(full, 'x')) },
		"/endless":  func(w http.ResponseWriter) { w.(http.Flusher).Flush(); w.Write(full); w.Write(full) },
		"/gzip":     encoded("gzip", zipped(full)),
		"/bomb":     encoded("gzip", zipped(bytes.Repeat([]byte("x"), 100*max))),
		"/members":  encoded("gzip", bytes.Repeat(zipped(nil), 100)),
		"/cut-gzip": encoded("gzip", zipped(full)[:20]),
		"/br":       encoded("br", full),
		"/identity": encoded("identity", full),
		"/part":     func(w http.ResponseWriter) { w.WriteHeader(206); w.Write(full) },
		"/cut":      func(w http.ResponseWriter) { raw(w, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nxxxxx") },
		"/cut-chunk": func(w http.ResponseWriter) {
			raw(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nxxxxx\r\n")
		},
		"/till-end": func(w http.ResponseWriter) { raw(w, "HTTP/1.1 200 OK\r\n\r\n"+string(full)) },
		"/nothing":  func(w http.ResponseWriter) { w.Header().Set("Content-Encoding", "gzip"); w.WriteHeader(204) },
		"/missing":  func(w http.ResponseWriter) { w.WriteHeader(404); w.Write(full) },
	}
	s := serve(t, "https", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) { answers[r.URL.Path](w) })
	c := client(t, up())
	for _, tt := range []struct {
		path          string
		plain, stored error // the errors for a document and for an archive
	}{
		{"/full", nil, nil}, {"/chunked", nil, nil}, {"/identity", nil, nil}, {"/missing", nil, nil},
		{"/over", egress.ErrTooLarge, egress.ErrTooLarge}, {"/endless", egress.ErrTooLarge, egress.ErrTooLarge},
		{"/gzip", nil, egress.ErrAnswer}, {"/bomb", egress.ErrTooLarge, egress.ErrAnswer},
		{"/members", egress.ErrTooLarge, egress.ErrAnswer}, {"/cut-gzip", io.ErrUnexpectedEOF, egress.ErrAnswer},
		{"/br", egress.ErrAnswer, egress.ErrAnswer}, {"/part", egress.ErrAnswer, egress.ErrAnswer},
		{"/cut", io.ErrUnexpectedEOF, io.ErrUnexpectedEOF}, {"/cut-chunk", io.ErrUnexpectedEOF, io.ErrUnexpectedEOF},
		{"/till-end", nil, egress.ErrAnswer},
	} {
		for archive, want := range map[bool]error{false: tt.plain, true: tt.stored} {
			body, err := fetch(t.Context(), c, egress.Request{URL: s.at("https", "up.test", tt.path+"?token=SECRET"),
				MaxBytes: max, Archive: archive})
			if !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("%s, archive %v: got %v, want %v", tt.path, archive, err, want)
			}
			if err == nil && !bytes.Equal(body, full) {
				t.Errorf("%s, archive %v: got %d bytes", tt.path, archive, len(body))
			}
			if len(body) > max || err != nil && strings.Contains(err.Error(), "SECRET") {
				t.Errorf("%s, archive %v: got %d bytes, %v", tt.path, archive, len(body), err)
			}
		}
	}
	if body, err := fetch(t.Context(), c, egress.Request{URL: s.at("https", "up.test", "/nothing")}); err != nil ||
		len(body) != 0 {
		t.Errorf("204: got %q, %v", body, err)
	}
}

func fetch(ctx context.Context, c *egress.Client, r egress.Request) ([]byte, error) {
	resp, err := c.Get(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

func TestSlowServersAreGivenUp(t *testing.T) {
	s := serve(t, "https", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			fmt.Fprint(w, "x")
			w.(http.Flusher).Flush()
		}
		hang(r)
	})
	c := client(t, up())
	c.SetTimes(time.Minute, 20*time.Millisecond, time.Minute)
	_, err := fetch(t.Context(), c, egress.Request{URL: s.at("https", "up.test", "/body")})
	if !errors.Is(err, egress.ErrTooSlow) {
		t.Errorf("a body that drips: got %v, want ErrTooSlow", err)
	}
	hasty := client(t, up())
	hasty.SetTimes(20*time.Millisecond, time.Minute, time.Minute)
	if _, err := fetch(t.Context(), hasty, egress.Request{URL: s.at("https", "up.test", "/header")}); err == nil {
		t.Error("a header that never comes is waited for")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = fetch(ctx, c, egress.Request{URL: s.at("https", "up.test", "/header"), Attempts: 9})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's deadline: got %v", err)
	}
}
