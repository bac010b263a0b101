//go:build linux

package hostile_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// echo repeats everything in the request, in every place of an answer that may be quoted.
func echo(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		said := told(r)
		w.Header().Set("WWW-Authenticate", `Basic realm="`+said+`"`)
		w.Header().Set("Content-Type", "text/html; "+said)
		w.Header().Set("X-Error", said)
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"errors":["no access for %s"]}`, said)
	}
}

// told returns the credentials in a request, as sent and decoded, and its URL.
func told(r *http.Request) string {
	_, password, _ := r.BasicAuth()
	return strings.Join([]string{r.Header.Get("Authorization"), password, r.URL.RequestURI()}, " ")
}

// raw answers with bytes that need not be HTTP.
func raw(answer func(said string) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, answer(told(r)))
	}
}

// A registry or forge may repeat what it received: in an error page, a header, an answer that is not HTTP, a redirect, or to git. Secrets
// must not go further. Every answer is checked, and at the end of a program all logs and files.
func TestSecretsAreNotRepeated(t *testing.T) {
	p := startOwn(t, trusted)
	answers := map[string]http.HandlerFunc{
		"malformed-status":   raw(func(said string) string { return "HTTP/1.1 " + said + "\r\n\r\n" }),
		"malformed-protocol": raw(func(said string) string { return said + "\r\n\r\n" }),
		"malformed-header":   raw(func(said string) string { return "HTTP/1.1 200 OK\r\n" + said + "\r\n\r\n" }),
		"malformed-length":   raw(func(said string) string { return "HTTP/1.1 200 OK\r\nContent-Length: " + said + "\r\n\r\n" }),
		"malformed-coding":   raw(func(said string) string { return "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + said + "\r\n\r\n" }),
		"malformed-chunk": raw(func(said string) string {
			return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + said + "\r\n"
		}),
		"reason":           raw(func(said string) string { return "HTTP/1.1 403 " + said + "\r\nContent-Length: 0\r\n\r\n" }),
		"reason-500":       raw(func(said string) string { return "HTTP/1.1 500 " + said + "\r\nContent-Length: 0\r\n\r\n" }),
		"content-encoding": raw(func(said string) string { return "HTTP/1.1 200 OK\r\nContent-Encoding: " + said + "\r\n\r\n" }),
		"redirect-query": func(w http.ResponseWriter, r *http.Request) {
			redirectTo("https://169.254.169.254/x.zip?token="+strings.ReplaceAll(told(r), " ", "+"))(w, r)
		},
		"redirect-user": func(w http.ResponseWriter, r *http.Request) {
			redirectTo("https://u:"+strings.ReplaceAll(told(r), " ", "+")+"@src.test/x.zip")(w, r)
		},
		"redirect-bad":  func(w http.ResponseWriter, r *http.Request) { redirectTo("https://%zz/"+told(r))(w, r) },
		"redirect-host": func(w http.ResponseWriter, r *http.Request) { redirectTo("https://"+secretOf(r)+"/x.zip")(w, r) },
		"redirect-port": func(w http.ResponseWriter, r *http.Request) {
			redirectTo("https://src.test:"+secretOf(r)+"/x.zip")(w, r)
		},
		"redirect-scheme": func(w http.ResponseWriter, r *http.Request) { redirectTo(secretOf(r)+"://x")(w, r) },
		"redirect-path":   func(w http.ResponseWriter, r *http.Request) { redirectTo("http://src.test/"+secretOf(r))(w, r) },
		"page": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Terraform-Get", "oci://"+secretOf(r)+"/x?"+told(r))
		},
	}
	for _, status := range []int{400, 401, 403, 404, 407, 429, 500, 503} {
		answers[fmt.Sprint("status-", status)] = echo(status)
	}
	number, few := 0, shorter(t, "what is malformed from archives only, and a few statuses")
	for name, answer := range answers {
		download := func(w http.ResponseWriter, r *http.Request, _ string) { answer(w, r) }
		for where, g := range map[string]registry{
			"discovery":  {discovery: answer},
			"versions":   {versions: answer},
			"download":   {download: download},
			"archive":    *located("/x.zip?X-Amz-Signature=" + secretQuery),
			"page":       *located("/page?token=" + secretQuery),
			"repository": *located("git::https://HOST/x.git?ref=v1"),
			"user":       *located("https://u:" + secretLocation + "@HOST/x.zip"),
		} {
			common := name == "status-401" || name == "status-404"
			if few && where != "archive" && !common {
				continue
			}
			// Each case has its own host, because failing hosts are not requested for a while.
			host := vault(number)
			number++
			p.run(name+"-at-"+where, func(t *testing.T) {
				g.other = answer
				strangerAt(t, host, naming(host, &g))
				m := module{host, "case", "echo", "aws"}
				p.ask(http.MethodGet, m.path("versions"))
				for range 2 {
					if a := p.install(m, "1.0.0"); where != "versions" && a.Status < 400 {
						t.Errorf("%d", a.Status)
					}
				}
			})
		}
	}
	if number > vaults {
		t.Fatalf("%d cases, and credentials for %d hosts", number, vaults)
	}
}

// naming is g with its own name instead of HOST in locations.
func naming(host string, g *registry) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.ServeHTTP(&namer{w, host}, r)
	})
}

type namer struct {
	http.ResponseWriter
	host string
}

func (n *namer) Unwrap() http.ResponseWriter { return n.ResponseWriter }

func (n *namer) WriteHeader(status int) {
	if location := n.Header().Get("X-Terraform-Get"); location != "" {
		n.Header().Set("X-Terraform-Get", strings.ReplaceAll(location, "HOST", n.host))
	}
	n.ResponseWriter.WriteHeader(status)
}

// secretOf returns the credential in a request, without the name of the scheme.
func secretOf(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}
