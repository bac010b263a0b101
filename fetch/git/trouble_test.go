package git_test

import (
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modproxy/modproxy"
)

// cut ends the connection after that many bytes of an answer.
type cut struct {
	http.ResponseWriter
	left int
}

func (c *cut) Write(p []byte) (int, error) {
	if len(p) > c.left {
		c.ResponseWriter.Write(p[:c.left])
		c.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

// A failed try counts against the size limit of the next try. If the rest is too small, the error says nothing about
// the size of the repository.
func TestTroubleIsNotSize(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := newAuthor(t, root, "x.git")
	noise := make([]byte, 400<<10)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	a.write("noise", string(noise))
	commit := a.commit("noise")
	good := backend(t, root)
	var packs, down atomic.Int32
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		switch {
		case strings.Contains(string(body), "fetch") && packs.Add(1) == 1:
			down.Store(1)
			w = &cut{w, 250 << 10}
		case down.Add(-1) == 0:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		good.ServeHTTP(w, r)
	}))
	f := newFetcher(t)
	f.Limits.Received = 550 << 10
	_, err := f.FetchURL(t.Context(), s.URL+"/x.git/.git?ref="+commit, files{})
	if errors.Is(err, modproxy.ErrInvalid) || !errors.Is(err, modproxy.ErrUnavailable) || packs.Load() < 2 {
		t.Errorf("error %v after %d tries", err, packs.Load())
	}
}
