//go:build linux

package hostile_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// named is ordinary without the rule that allows every registry.
var named = strings.Replace(ordinary, "  - host: \"*\"\n", "", 1)

// A registry that is not named is not requested, even if its name looks like a named one.
func TestOnlyNamedRegistriesAreAsked(t *testing.T) {
	p := startOwn(t, named+"anonymous: true\n")
	lookalikes := []string{
		"xup-a.test", "up-a.test.evil.test", "up-a.testx", "up-a", "up-a_test", "test", ".test", "a.up-a.test", "up-a.test:8443", "up-a.test:80",
		"up-a.test.", "x@up-a.test", "up-a.test@evil.test", "up-a.test%00.evil.test", "up-a.test%0a", "up-a.test%20", "up%2da.test.evil.test",
		"up-a.test%2f..%2fevil.test", "up-a.test%5c", "%2e", "*", "%2a", "*.test", "evil.test", "up-%d0%b0.test", "up\u2010a.test", "xn--up--h8d.test",
		"127.0.0.1", "localhost", "[::1]", strings.Repeat("(a+)+", 40) + "$", strings.Repeat("a", 60) + ".test",
	}
	before := len(world.strangers.at(""))
	asked := len(world.good["up-a.test"].Requests())
	for _, host := range lookalikes {
		p.run(regexp.MustCompile(`[^a-z0-9.]`).ReplaceAllString(host, "_"), func(t *testing.T) {
			for _, rest := range []string{"/v1/modules/good/archive/aws/versions", "/v1/modules/good/archive/aws/1.0.0/download", "~/v1/modules/good/archive/aws/1.0.0/archive-aws-1.0.0.tar.gz"} {
				a, err := p.send("GET /" + host + rest + " HTTP/1.1\r\nHost: " + "modproxy.test" + "\r\nConnection: close\r\n\r\n")
				if err != nil || a.Status != http.StatusForbidden && a.Status != http.StatusBadRequest && a.Status != http.StatusNotFound {
					t.Errorf("%s: %d, %v: %s", rest, a.Status, err, a.Said())
				}
			}
		})
	}
	for _, host := range lookalikes {
		p.run("as-Host-"+regexp.MustCompile(`[^a-z0-9.]`).ReplaceAllString(host, "_"), func(t *testing.T) {
			a, err := p.send("GET /v1/modules/corp/vpc/aws/versions HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
			if err == nil && strings.Contains(string(a.Body), "99.0.0") {
				t.Errorf("%d %s: the route did not count", a.Status, a.Body)
			}
		})
	}
	if seen := world.strangers.at("")[before:]; len(seen) > 0 {
		t.Errorf("strangers were asked: %v", seen)
	}
	if seen := world.good["up-a.test"].Requests()[asked:]; len(seen) > 0 {
		t.Errorf("up-a.test was asked: %v", seen)
	}
}

// Exceptions of egress.allow apply exactly as written.
func TestExceptionsAreExact(t *testing.T) {
	for name, to := range map[string][]string{
		"allowed.evil.test": {insideAddress}, "xallowed.evil.test": {insideAddress}, "sub.allowed.evil.test": {insideAddress},
		"allowed.evil.test.evil.test": {insideAddress}, "neighbour.evil.test": {"10.1.0.2"},
		"moved.evil.test": {"10.0.0.5"},
	} {
		world.names.set(name, to...)
	}
	zip := zipFor(t)
	few := shorter(t, "exceptions by name and by address only")
	for name, test := range map[string]struct {
		allow   string
		good    []string
		refused []string
	}{
		"name": {
			"allowed.evil.test", []string{"allowed.evil.test", "ALLOWED.evil.test"},
			[]string{"xallowed.evil.test", "sub.allowed.evil.test", "allowed.evil.test.evil.test", "neighbour.evil.test", insideAddress, "allowed.evil.test@10.0.0.5", "allowed.evil.test."},
		},
		"name-and-port": {"allowed.evil.test:443", []string{"allowed.evil.test"}, []string{"allowed.evil.test:8443", "xallowed.evil.test", insideAddress}},
		"address":       {insideAddress, []string{insideAddress, "allowed.evil.test"}, []string{"10.1.0.2", "10.1.0.11", "10.1.0.10", "neighbour.evil.test", "moved.evil.test", "[64:ff9b::a01:1]", "167837697"}},
		"network":       {"10.1.0.0/31", []string{insideAddress}, []string{"10.1.0.2", "neighbour.evil.test", "10.0.0.5", "[2002:a01:1::]"}},
		"other-name":    {"src.test", []string{"src.test"}, []string{"allowed.evil.test", insideAddress, "src.test.evil.test"}},
	} {
		if few && name != "name" && name != "address" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p := startOwn(t, strings.Replace(ordinary, "egress: {", "egress: {allow: [\""+test.allow+"\"], ", 1))
			for _, host := range test.good {
				p.run("good-"+host, func(t *testing.T) {
					path := "/archives/legal.zip"
					if host != "src.test" {
						strangerAt(t, host, zip)
					}
					p.mustInstall(module{located("https://" + host + path).host(t), "case", "good", "aws"}, "1.0.0")
				})
			}
			for _, host := range test.refused {
				p.run("refused-"+host, func(t *testing.T) {
					p.refuse(t, module{located("https://" + host + "/x.zip").host(t), "case", "refused", "aws"}, "1.0.0", "not allowed|answered 404")
					p.refuse(t, module{located("git::https://" + host + "/x.git").host(t), "case", "refused", "aws"}, "1.0.0", "not allowed|invalid|answered 404")
				})
			}
		})
	}
}
