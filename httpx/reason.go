package httpx

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modproxy/modproxy/protocol"
)

const (
	// maxReason is the longest text in a reason phrase, in bytes. Proxies on the way hold all headers of an answer in a few KiB.
	maxReason = 600
	// reasonTime is how long a client may take to read an answer with a reason phrase of its own.
	reasonTime = 10 * time.Second
)

// showsReason reports whether the client that sent r prints the reason phrase of an answer with that status, and nothing
// of its body: docs/reference/errors.md has what clients print. Only HTTP/1 has reason phrases.
func showsReason(r *http.Request, status int) bool {
	if r.ProtoMajor != 1 || r.ContentLength != 0 || status == http.StatusNotFound {
		return false
	}
	path := r.URL.Path
	if protocol.IsAboutProviders(path) {
		return status != http.StatusUnauthorized // for which clients have words of their own
	}
	return strings.HasSuffix(path, "/versions") || strings.HasSuffix(path, "/terraform.json") ||
		strings.HasSuffix(path, "/download") && (status == http.StatusTooManyRequests || status >= 500)
}

// reason returns the phrase behind a status: the usual words, then text in printable ASCII (RFC 9112, 4).
func reason(status int, text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, strings.ReplaceAll(text, "…", "..."))
	return http.StatusText(status) + " (" + text + ")"
}

// writeReason answers r with status and body, and with text in the reason phrase. It reports whether the connection could be
// taken from net/http, which writes no phrase but the usual one. The connection is closed afterwards.
func (w *Response) writeReason(r *http.Request, status int, text string, body []byte) bool {
	conn, _, err := w.control.Hijack()
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(reasonTime))
	header := w.Header()
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	header.Set("Connection", "close")
	header.Set("Content-Length", fmt.Sprint(len(body)))
	out := bufio.NewWriter(conn)
	fmt.Fprintf(out, "HTTP/1.%d %d %s\r\n", min(r.ProtoMinor, 1), status, reason(status, text))
	header.Write(out)
	out.WriteString("\r\n")
	w.status = status
	if r.Method != http.MethodHead {
		out.Write(body)
		w.bytes += int64(len(body))
	}
	out.Flush() // a client that is gone does not matter
	return true
}
