package egress_test

import (
	"net/http"
	"testing"

	"github.com/modproxy/modproxy/egress"
)

// TestUnwantedBodiesKeepTheConnection: unwanted bodies do not cost their connection: those of redirects, of failed attempts,
// and those that the caller closes unread. Long or stalling bodies are not waited for.
func TestUnwantedBodiesKeepTheConnection(t *testing.T) {
	failed := map[string]bool{}
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/redirect":
			http.Redirect(w, r, "/moved", http.StatusFound)
		case path == "/broken" && !failed[path]:
			failed[path] = true
			http.Error(w, "broken", http.StatusBadGateway)
		case path == "/absent":
			http.NotFound(w, r)
		case path == "/long":
			w.Header().Set("Location", "/moved")
			w.WriteHeader(http.StatusFound)
			w.Write(make([]byte, 64<<10))
		case path == "/stalls":
			w.Header().Set("Location", "/moved")
			w.WriteHeader(http.StatusFound)
			w.Write([]byte("a little, and then"))
			w.(http.Flusher).Flush()
			hang(r)
		}
	}
	for _, tt := range []struct {
		path  string
		conns int64 // the maximum for four sequential requests
	}{
		{"/redirect", 1}, {"/broken", 1}, {"/absent", 1}, {"/long", 8}, {"/stalls", 8},
	} {
		for _, archive := range []bool{false, true} {
			n := int64(0)
			for range 20 { // a busy machine may need longer than dropTime for a short body
				s := serve(t, "https", "127.0.0.1", handler)
				c := client(t, up())
				for range 4 {
					delete(failed, tt.path)
					resp, err := c.Get(t.Context(), egress.Request{
						URL: s.at("https", "up.test", tt.path), Redirects: 1, Attempts: 2, Archive: archive,
					})
					if err != nil {
						t.Fatalf("%s: %v", tt.path, err)
					}
					resp.Body.Close()
				}
				if n = s.conns.Load(); n <= tt.conns {
					break
				}
			}
			if n > tt.conns {
				t.Errorf("%s: %d connections for four requests; want %d at most", tt.path, n, tt.conns)
			}
		}
	}
}
