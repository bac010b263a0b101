//go:build linux

package hostile_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
)

// The host that a client names in its request does not appear in answers to others, or to itself.
func TestHostIsNotBelieved(t *testing.T) {
	p := start(t, ordinary+"anonymous: true\n")
	const poison = "poison.example"
	poisons := map[string][]string{
		"host":             {"Host", poison},
		"host-port":        {"Host", poison + ":8080"},
		"host-user":        {"Host", "up-a.test@" + poison},
		"forwarded-host":   {"X-Forwarded-Host", poison, "X-Forwarded-Proto", "https"},
		"forwarded-server": {"X-Forwarded-Server", poison, "X-Forwarded-Port", "444"},
		"forwarded":        {"Forwarded", "for=1.2.3.4;host=" + poison + ";proto=https"},
		"prefix":           {"X-Forwarded-Prefix", "/" + poison, "X-Script-Name", "/" + poison},
		"original-url":     {"X-Original-Url", "https://" + poison + "/", "X-Rewrite-Url", "/" + poison},
		"original-host":    {"X-Host", poison, "X-Original-Host", poison, "X-Http-Host-Override", poison},
		"origin":           {"Origin", "https://" + poison, "Referer", "https://" + poison + "/"},
		"several":          {"Host", poison, "X-Forwarded-Host", poison + ", " + poison, "Forwarded", "host=" + poison},
	}
	number := 0
	for name, headers := range poisons {
		number++
		p.run(name, func(t *testing.T) {
			// Each case has its own registry, so that nothing is cached.
			host := located("https://src.test/archives/good.tar.gz").host(t)
			m := module{host, "case", "headers", "aws"}
			paths := []string{
				"/.well-known/terraform.json", "/", m.path("versions"), m.path("1.0.0/download"), m.archive("1.0.0"),
				"/v1/modules/good/archive/aws/1.0.0/download", "/nowhere", m.path("x/download"),
			}
			for _, round := range [][]string{headers, nil} {
				for _, path := range paths {
					a := p.ask(http.MethodGet, path, round...)
					var header bytes.Buffer
					a.Header.Write(&header)
					if bytes.Contains(header.Bytes(), []byte("poison")) || bytes.Contains(a.Body, []byte("poison")) {
						t.Errorf("GET %s with %v: %s\n%s%.500s", path, round, http.StatusText(a.Status), &header, a.Body)
					}
					if to := a.Header.Get("X-Terraform-Get"); to != "" && !strings.HasPrefix(to, "/"+host) && !strings.HasPrefix(to, "/up-a.test~/") && !strings.HasPrefix(to, p.url+"/") {
						t.Errorf("GET %s with %v: the package is said to be at %q", path, round, to)
					}
				}
			}
		})
	}
	p.run("absolute-form", func(t *testing.T) {
		for range 2 {
			a, err := p.send("GET http://" + poison + "/v1/modules/good/archive/aws/1.0.0/download HTTP/1.1\r\nHost: " + poison + "\r\nConnection: close\r\n\r\n")
			if to := a.Header.Get("X-Terraform-Get"); err != nil || strings.Contains(to, "poison") {
				t.Errorf("%q, %v", to, err)
			}
		}
	})
}

// Forwarding headers count only from trusted proxies, and only for their own requests.
func TestForwardingIsBelievedOfTheTrusted(t *testing.T) {
	p := startOwn(t, ordinary+"trusted_proxies: [127.0.0.0/8]\nanonymous: true\n")
	const path = "/up-a.test/v1/modules/good/archive/aws/1.0.0/download"
	for name, test := range map[string]struct {
		headers []string
		want    string // of the location
	}{
		"host":     {[]string{"X-Forwarded-Host", "modules.example", "X-Forwarded-Proto", "https"}, "https://modules.example/up-a.test~/"},
		"clean":    {nil, p.url + "/up-a.test~/"},
		"last":     {[]string{"X-Forwarded-Host", "poison.example, modules.example"}, "http://modules.example/up-a.test~/"},
		"injected": {[]string{"X-Forwarded-Host", "poison.example/x?", "X-Forwarded-Proto", "https"}, "/up-a.test~/"},
		"user":     {[]string{"X-Forwarded-Host", "u@poison.example"}, "/up-a.test~/"},
		"scheme":   {[]string{"X-Forwarded-Host", "modules.example", "X-Forwarded-Proto", "javascript"}, "http://modules.example/up-a.test~/"},
	} {
		p.run(name, func(t *testing.T) {
			if to := p.ask(http.MethodGet, path, test.headers...).Header.Get("X-Terraform-Get"); !strings.HasPrefix(to, test.want) {
				t.Errorf("the package is said to be at %q; want %s…", to, test.want)
			}
		})
	}
}
