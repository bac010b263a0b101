package proxy

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// The longest reason phrase, in bytes. Proxies on the way hold all headers of
	// an answer in a few KiB.
	maxPhrase = 600
	// The time in which a client takes an answer with a phrase of its own.
	phraseTime = 10 * time.Second
)

// wantsPhrase reports whether a client prints the reason phrase of an answer with
// status to r, and nothing of its body: docs/errors.md has what the clients print.
// Only HTTP/1 has a phrase.
func wantsPhrase(r *http.Request, status int) bool {
	if r.ProtoMajor != 1 || r.ContentLength != 0 || status == http.StatusNotFound {
		return false
	}
	path := r.URL.Path
	return strings.HasSuffix(path, "/versions") || strings.HasSuffix(path, "/terraform.json") ||
		strings.HasSuffix(path, "/download") && (status == http.StatusTooManyRequests || status >= 500)
}

// phrase is what stands behind a status whose reason is text: printable ASCII
// (RFC 9112, 4), the usual words first.
func phrase(status int, text string) string {
	text = strings.ReplaceAll(text, "…", "...")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	if len(text) > maxPhrase {
		text = text[:maxPhrase] + "..."
	}
	return http.StatusText(status) + " (" + text + ")"
}

// writePhrase answers r with status and body, and with text as the reason phrase. It
// reports whether it did: net/http writes no phrase but the usual one, so the
// connection is taken from it, and closed afterwards. The header is w's.
func (w *recorder) writePhrase(r *http.Request, status int, text string, body []byte) bool {
	conn, _, err := w.control.Hijack()
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(phraseTime))
	header := w.Header()
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	header.Set("Connection", "close")
	header.Set("Content-Length", fmt.Sprint(len(body)))
	out := bufio.NewWriter(conn)
	fmt.Fprintf(out, "HTTP/1.%d %d %s\r\n", min(r.ProtoMinor, 1), status, phrase(status, text))
	header.Write(out)
	out.WriteString("\r\n")
	w.status = status
	if r.Method != http.MethodHead {
		out.Write(body)
		w.bytes += int64(len(body))
	}
	out.Flush() // a client that is gone is no concern
	return true
}
