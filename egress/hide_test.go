package egress_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/egress"
)

// TestServersWordsAreNotQuoted: a server may repeat secrets of a request, also in texts that errors quote.
func TestServersWordsAreNotQuoted(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("u:SECRET-password"))
	for name, answer := range map[string]string{
		"reason":   "HTTP/1.1 403 no access with SECRET-password\r\nContent-Length: 0\r\n\r\n",
		"length":   "HTTP/1.1 200 OK\r\nContent-Length: SECRET-password SECRET-query " + basic + "\r\n\r\n",
		"redirect": "HTTP/1.1 302 Found\r\nLocation: http://secret-PASSWORD/SECRET-query\r\nContent-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "https", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					panic(err)
				}
				defer conn.Close()
				fmt.Fprint(conn, answer)
			})
			res, err := client(t, up()).Get(t.Context(), egress.Request{
				URL: s.at("https", "up.test", "/x?token=SECRET-query"), Redirects: 1,
				Credentials: []egress.Credential{{Origin: s.at("https", "up.test", ""),
					Authorization: egress.NewSecret("Basic " + basic)}},
			})
			text := fmt.Sprint(err)
			if err == nil {
				text = res.Status
				res.Body.Close()
			}
			for _, secret := range []string{"secret-password", "secret-query", strings.ToLower(basic)} {
				if strings.Contains(strings.ToLower(text), secret) {
					t.Errorf("%q has the secret %s", text, secret)
				}
			}
		})
	}
}

// TestWhatIsHiddenMayBeAnyBytes: a server chooses the text of a redirect, and so the hidden text: any bytes.
func TestWhatIsHiddenMayBeAnyBytes(t *testing.T) {
	for _, value := range []string{"%ff%ff%ff%ff%ff%ff", "SECRET%ff%fe", "%00%00%00%00%00%00", "(?i)[[[[",
		"%EF%BF%BD%EF%BF%BD", "SECRET\u212a\u017f"} {
		s := serve(t, "https", "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "https://up.test:1/?a="+value)
			w.WriteHeader(http.StatusFound)
		})
		res, err := client(t, up()).Get(t.Context(),
			egress.Request{URL: s.at("https", "up.test", "/x?b="+value), Redirects: 3})
		if err == nil {
			res.Body.Close()
			t.Errorf("%s: %s", value, res.Status)
			continue
		}
		if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", value, err)
		}
	}
}
