package httpx

import (
	"net/http"
	"path"
	"strings"
)

// redirect answers r, a GET or HEAD, with a redirect to its own URL on a new connection, which another process accepts. It reports
// whether it has answered. The location is relative to the URL of the client, because a reverse proxy may have changed its path.
func (w *Response) redirect(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || w.status != 0 {
		return false
	}
	location := "./"
	if escaped := r.URL.EscapedPath(); !strings.HasSuffix(escaped, "/") {
		location += path.Base(escaped)
	}
	if r.URL.RawQuery != "" {
		location += "?" + r.URL.RawQuery
	}
	header := w.Header()
	clear(header)
	header.Set("Cache-Control", "no-store")
	header.Set("Connection", "close")
	header.Set("Location", location)
	w.WriteHeader(http.StatusTemporaryRedirect)
	return true
}
