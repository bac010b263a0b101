package proxy_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/proxy"
)

// The proxy believes a Host or forwarding header only if it has a name of the proxy, or comes from a trusted proxy.
func TestOrigin(t *testing.T) {
	h := newHandler(t, func(c *proxy.Config, _ *scripted) {
		c.Process = process{name: "127.0.0.1:8080"}
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	const trusted, stranger = "10.1.2.3:9999", "192.0.2.1:9999"
	for _, c := range []struct {
		header []string
		want   string
	}{
		{[]string{"Host", "127.0.0.1:8080"}, "http://127.0.0.1:8080"},
		{[]string{"Host", host}, "http://" + host}, // a site that points its DNS at the proxy
		{[]string{"Host", "evil.test"}, ""},
		{[]string{"Host", "127.0.0.1:8080", "Test-From", stranger, "X-Forwarded-Host", "evil.test"}, "http://127.0.0.1:8080"},
		{[]string{"Host", "127.0.0.1:8080", "Test-From", stranger, "Forwarded", "host=evil.test"}, "http://127.0.0.1:8080"},
		{[]string{"Test-From", trusted, "X-Forwarded-Host", "good.test", "X-Forwarded-Proto", "https"}, "https://good.test"},
		{[]string{"Test-From", trusted, "X-Forwarded-Host", "evil.test, good.test", "X-Forwarded-Proto", "https"}, "https://good.test"},
		{[]string{"Test-From", trusted, "Forwarded", `for=x;host="evil.test", for=y;proto=https;host="good.test:8443"`}, "https://good.test:8443"},
		{[]string{"Test-From", trusted, "Host", "127.0.0.1:8080", "Forwarded", "host=evil.test;proto=https", "X-Forwarded-For", "192.0.2.1"}, "http://127.0.0.1:8080"},
		{[]string{"Test-From", trusted, "Host", "127.0.0.1:8080", "Forwarded", "host=evil.test;proto=https", "X-Forwarded-Proto", "https"}, "http://127.0.0.1:8080"},
		{[]string{"Test-From", trusted, "X-Forwarded-Host", "good.test/evil", "X-Forwarded-Proto", "javascript"}, ""},
	} {
		res := get(h, base+"/1.1.0/download", c.header...)
		if got := res.Header.Get("X-Terraform-Get"); got != c.want+archive {
			t.Errorf("%v: %q; want %q", c.header, got, c.want+archive)
		}
		res = get(h, "/"+host+"/.well-known/terraform.json", c.header...)
		modules, providers := c.want+"/"+host+"/v1/modules/", c.want+"/"+host+"/v1/providers/"
		if got, want := body(t, res), fmt.Sprintf(`{"modules.v1":%q,"providers.v1":%q}`+"\n", modules, providers); got != want {
			t.Errorf("%v: %s; want %s", c.header, got, want)
		}
	}
}

func TestDiscovery(t *testing.T) {
	const own, named = `{"modules.v1":"/v1/modules/"}`, `{"modules.v1":"/v1/modules/","providers.v1":"/v1/providers/"}`
	below := func(base string) string {
		return fmt.Sprintf(`{"modules.v1":"%sv1/modules/","providers.v1":"%[1]sv1/providers/"}`, base)
	}
	for _, c := range []struct{ public, name, path, want string }{
		{"", "127.0.0.1:8080", "", own},
		{"", "evil.test", "", own},
		{"", host, "", named},
		{"", host + ":443", "", named},
		{"", "evil.test", "/" + host, below("/" + host + "/")}, // a name that is not known to be ours
		{"https://modules.example.com", "modules.example.com", "", own},
		{"https://modules.example.com", host, "", named},
		{"https://modules.example.com", host, "/" + host, below("https://modules.example.com/" + host + "/")},
		{"https://modules.example.com", "modules.example.com", "/Registry.Example.COM:443", below("https://modules.example.com/" + host + "/")},
		{"https://example.com/x", "example.com", "", `{"modules.v1":"https://example.com/x/v1/modules/"}`},
		{"https://example.com/x", host, "", below("https://example.com/x/" + host + "/")},
		{"https://example.com/x", "example.com", "/" + host, below("https://example.com/x/" + host + "/")},
		{"", host, "/other.example", "403"},
		{"", host, "/-", "400"},
		{"", host, "/a%2fb", "400"},
		{"", host, "//" + host, "404"},
		{"", host, "/x/" + host, "404"},
	} {
		h := newHandler(t, func(cfg *proxy.Config, _ *scripted) { cfg.PublicURL = c.public })
		res := get(h, c.path+"/.well-known/terraform.json", "Host", c.name)
		got := strings.TrimSuffix(body(t, res), "\n")
		if res.StatusCode != 200 {
			got = fmt.Sprint(res.StatusCode)
		}
		if got != c.want {
			t.Errorf("%s as %s, public URL %q: %s; want %s", c.path, c.name, c.public, got, c.want)
		}
	}
}
