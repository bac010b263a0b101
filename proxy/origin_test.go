package proxy_test

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/modproxy/modproxy/proxy"
)

// What clients say of us is not believed, unless it is us or one we trust.
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
		res = get(h, "/.well-known/terraform.json", c.header...)
		var services map[string]string
		modules := c.want + "/v1/modules/"
		if c.header[1] == host {
			modules = c.want + "/" + host + "/v1/modules/"
		}
		if err := json.Unmarshal([]byte(body(t, res)), &services); err != nil || services["modules.v1"] != modules || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%v: discovery %v, %v", c.header, services, err)
		}
	}
}

// Under an upstream's name, discovery names that upstream whatever the URL of the proxy is: requests to that URL do
// not carry the upstream's name.
func TestDiscoveryUnderAnUpstreamsName(t *testing.T) {
	h := newHandler(t, func(c *proxy.Config, _ *scripted) { c.PublicURL = "https://modules.example.com" })
	const public, named = `{"modules.v1":"https://modules.example.com`, "https://modules.example.com/" + host
	for name, want := range map[string]string{
		host:                  public + "/" + host + `/v1/modules/","providers.v1":"` + named + `/v1/providers/"}`,
		"modules.example.com": public + `/v1/modules/"}`,
	} {
		if got := body(t, get(h, "/.well-known/terraform.json", "Host", name)); got != want+"\n" {
			t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
}
