//go:build linux

package hostile_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// send writes bytes to modproxy unchanged and returns the answer, or an error if the connection ends without one.
func (p *proxy) send(request string) (rig.Answer, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		return rig.Answer{}, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(15 * time.Second))
	go io.WriteString(conn, request)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return rig.Answer{}, err
	}
	body, err := io.ReadAll(res.Body)
	a := rig.Answer{Status: res.StatusCode, Header: res.Header, Body: body, Length: res.ContentLength}
	// Package net/http answers requests that are not valid HTTP. They are not in the log.
	if res.StatusCode < 400 || res.Header.Get("Content-Type") == "application/json" {
		p.count(1)
		p.hold(http.MethodGet, "", a)
	}
	return a, err
}

// oddPaths are request targets that mean nothing, or that other programs could read differently. UP is the path below a good registry.
var oddPaths = map[string]string{
	"dots":                  "UP/../../../etc/passwd/n/aws/versions",
	"dots-escaped":          "UP/..%2f..%2fetc/n/aws/versions",
	"dots-escaped-all":      "UP/%2e%2e/%2e%2e/etc/passwd/versions",
	"dots-twice-escaped":    "UP/%252e%252e/n/aws/versions",
	"dots-overlong":         "UP/%c0%ae%c0%ae/n/aws/versions",
	"dots-backslash":        `UP/..\..\etc/n/aws/versions`,
	"dots-in-host":          "/../v1/modules/good/archive/aws/versions",
	"dots-in-host-escaped":  "/%2e%2e/v1/modules/good/archive/aws/versions",
	"dots-in-version":       "UP/good/archive/aws/..%2f1.0.0/download",
	"dots-in-file":          "/up-a.test~/v1/modules/good/archive/aws/1.0.0/..%2f..%2fx.tar.gz",
	"dots-before-file":      "/up-a.test~/v1/modules/good/archive/aws/1.0.0/x/../archive-aws-1.0.0.tar.gz",
	"dot":                   "UP/./good/archive/aws/versions",
	"nul":                   "UP/good%00/archive/aws/versions",
	"newline":               "UP/good%0a/archive/aws/versions",
	"carriage-return":       "UP/good%0d%0aX-Injected:%201/archive/aws/versions",
	"slash-escaped":         "UP/good%2farchive/aws/x/versions",
	"slash-escaped-in-host": "/up-a.test%2fx/v1/modules/good/archive/aws/versions",
	"semicolon":             "UP/good;x=1/archive/aws/versions",
	"backslash":             `UP/good\archive\aws\versions`,
	"backslash-escaped":     "UP/good%5carchive/x/aws/versions",
	"double-slash":          "UP//good/archive/aws/versions",
	"double-slash-first":    "/" + "UP/good/archive/aws/versions",
	"double-slash-last":     "UP/good/archive/aws//versions",
	"slash-at-end":          "UP/good/archive/aws/versions/",
	"full-width":            "UP/%ef%bd%87ood/archive/aws/versions",
	"combining":             "UP/good%cc%81/archive/aws/versions",
	"kelvin":                "UP/good/archive/%e2%84%aaws/versions",
	"not-utf8":              "UP/%ff%fe/archive/aws/versions",
	"space":                 "UP/good%20/archive/aws/versions",
	"tab":                   "UP/good%09/archive/aws/versions",
	"delete":                "UP/good%7f/archive/aws/versions",
	"escape":                "UP/good%1b[31m/archive/aws/versions",
	"long":                  "UP/" + strings.Repeat("a", 10_000) + "/archive/aws/versions",
	"many":                  "UP" + strings.Repeat("/a", 5_000) + "/versions",
	"very-long":             "UP/" + strings.Repeat("a", 100_000) + "/archive/aws/versions",
	"leading-hyphen":        "UP/-good/archive/aws/versions",
	"upper-case-system":     "UP/good/archive/AWS/versions",
	"empty-parts":           "UP/////versions",
	"user-in-host":          "/x@up-a.test/v1/modules/good/archive/aws/versions",
	"port-in-host":          "/up-a.test:99999/v1/modules/good/archive/aws/versions",
	"address-as-host":       "/169.254.169.254/v1/modules/good/archive/aws/versions",
	"mapped-as-host":        "/[::ffff:a9fe:a9fe]/v1/modules/good/archive/aws/versions",
	"decimal-as-host":       "/2852039166/v1/modules/good/archive/aws/versions",
	"localhost-as-host":     "/localhost/v1/modules/good/archive/aws/versions",
	"inside-as-host":        "/inside.evil.test/v1/modules/good/archive/aws/versions",
	"query-in-host":         "/up-a.test%3fx/v1/modules/good/archive/aws/versions",
	"fragment-in-host":      "/up-a.test%23x/v1/modules/good/archive/aws/versions",
	"zone-in-host":          "/[fe80::1%25lo]/v1/modules/good/archive/aws/versions",
	"punycode-host":         "/xn--/v1/modules/good/archive/aws/versions",
	"bad-punycode-host":     "/xn--zzzzzzzz.test/v1/modules/good/archive/aws/versions",
	"version-huge":          "UP/good/archive/aws/99999999999999999999999.0.0/download",
	"version-many":          "UP/good/archive/aws/" + strings.Repeat("1.", 5000) + "0/download",
	"version-escaped":       "UP/good/archive/aws/1.0.0%2f..%2f2.0.0/download",
	"version-newline":       "UP/good/archive/aws/1.0.0%0a/download",
	"other-file":            "/up-a.test~/v1/modules/good/archive/aws/1.0.0/other-aws-1.0.0.tar.gz",
	"other-version-in-file": "/up-a.test~/v1/modules/good/archive/aws/1.0.0/archive-aws-2.0.0.tar.gz",
	"percent":               "UP/good%/archive/aws/versions",
	"percent-half":          "UP/good%2/archive/aws/versions",
	"percent-no-hex":        "UP/good%zz/archive/aws/versions",
	"operating":             "/-/../-/metrics/v1/modules/good/archive/aws/versions",
	"admin":                 "/-/api/../../etc/passwd",
	"star":                  "*",
	"nothing":               "",
	"no-slash":              "up-a.test/v1/modules/good/archive/aws/versions",
	"other-origin":          "http://169.254.169.254/latest/meta-data/",
	"other-origin-path":     "https://inside.evil.test/v1/modules/x/../../../etc",
	"authority":             "169.254.169.254:443",
}

func TestOddPaths(t *testing.T) {
	p := start(t, ordinary)
	asked := len(world.good["up-a.test"].Requests())
	strangers := len(world.strangers.at(""))
	for name, path := range oddPaths {
		path = strings.Replace(path, "UP", "/up-a.test/v1/modules", 1)
		p.run(name, func(t *testing.T) {
			a, err := p.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
			if err != nil && a.Status == 0 && name != "very-long" {
				t.Fatal(err)
			}
			if a.Status < 400 && err == nil || a.Status == http.StatusInternalServerError {
				t.Errorf("%d %.300q; want that it is refused", a.Status, a.Body)
			}
			if a.Header.Get("Location") != "" || a.Header.Get("X-Injected") != "" {
				t.Errorf("answered with %v", a.Header)
			}
		})
	}
	for _, r := range world.good["up-a.test"].Requests()[asked:] {
		t.Errorf("the registry was asked for %s", r.Path)
	}
	for _, s := range world.strangers.at("")[strangers:] {
		t.Errorf("a stranger was asked: %v", s)
	}
}

// Requests that are not valid HTTP, or whose end is ambiguous, are answered once or not at all.
func TestOddRequests(t *testing.T) {
	p := start(t, ordinary)
	const path = "/up-a.test/v1/modules/good/archive/aws/versions"
	for name, request := range map[string]string{
		"two-lengths":        "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nGET /",
		"length-and-chunked": "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
		"unknown-coding":     "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity, chunked\r\n\r\n",
		"space-before-colon": "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length : 5\r\n\r\nGET /",
		"folded-header":      "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nX-A: a\r\n b\r\nConnection: close\r\n\r\n",
		"two-hosts":          "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nHost: y\r\n\r\n",
		"no-host":            "GET " + path + " HTTP/1.1\r\n\r\n",
		"bad-host":           "GET " + path + " HTTP/1.1\r\nHost: a b\r\n\r\n",
		"nul-in-header":      "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nX-A: a\x00b\r\n\r\n",
		"bare-newline":       "GET " + path + " HTTP/1.1\nHost: localhost\nConnection: close\n\n",
		"http-0.9":           "GET " + path + "\r\n",
		"http-2-preface":     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"huge-header":        "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nX-A: " + strings.Repeat("a", 1<<20) + "\r\n\r\n",
		"many-headers":       "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X-A: a\r\n", 200_000) + "\r\n",
		"method":             "BREW " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"post":               "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
		"put":                "PUT /up-a.test~/v1/modules/good/archive/aws/1.0.0/archive-aws-1.0.0.tar.gz" + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
		"delete":             "DELETE " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"connect":            "CONNECT 169.254.169.254:443 HTTP/1.1\r\nHost: 169.254.169.254:443\r\n\r\n",
		"connect-path":       "CONNECT " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"trace":              "TRACE " + path + " HTTP/1.1\r\nHost: localhost\r\nCookie: " + secretClient + "\r\nConnection: close\r\n\r\n",
		"long-method":        strings.Repeat("A", 5000) + " " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"tls":                "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	} {
		p.run(name, func(t *testing.T) {
			if name == "tls" {
				request += "\r\n\r\n"
			}
			a, err := p.send(request)
			if err == nil && a.Status < 400 && name != "bare-newline" && name != "folded-header" && name != "length-and-chunked" {
				t.Errorf("%d %.300q; want that it is refused", a.Status, a.Body)
			}
			if err == nil && a.Status == http.StatusInternalServerError {
				t.Errorf("%d %.300q", a.Status, a.Body)
			}
		})
	}
}

// The log has one line of JSON for each request, with any content.
func TestLogIsNotInjected(t *testing.T) {
	p := startOwn(t, ordinary)
	const forged = `{"level":"info","message":"request","kind":"forged"}`
	for name, headers := range map[string][]string{
		"agent":        {"User-Agent", forged + "\x1b[31m" + strings.Repeat("x", 50_000)},
		"agent-utf8":   {"User-Agent", "\xff\xfe" + strings.Repeat("\u2028", 100)},
		"forwarded-ip": {"X-Forwarded-For", "1.2.3.4, " + forged},
		"request-id":   {"X-Request-Id", forged},
	} {
		p.run(name, func(t *testing.T) {
			for _, path := range []string{"versions", "1.0.0%0a" + url.PathEscape(forged) + "/download", "1.0.0%0d%0a" + url.PathEscape(forged) + "%1b[2J/download"} {
				a, err := p.send("GET /up-a.test/v1/modules/good/archive/aws/" + path + " HTTP/1.1\r\nHost: localhost\r\n" +
					headers[0] + ": " + headers[1] + "\r\nConnection: close\r\n\r\n")
				if err != nil || a.Status == http.StatusInternalServerError {
					t.Errorf("%d, %v", a.Status, err)
				}
			}
		})
	}
	p.stop()
	for line := range strings.Lines(string(p.log())) {
		if len(line) > 4000 || strings.HasPrefix(line, forged) || strings.ContainsAny(line, "\x1b\r") {
			t.Errorf("the log has the line %.500q", line)
		}
	}
	p.launch()
	p.before = usage{1 << 20, 1 << 20, 0}
}
