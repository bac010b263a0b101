package hint

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	keys := []string{"listen", "public_url", "data", "tls", "upstreams", "log", "cache", "fetch"}
	for in, want := range map[string]string{
		"listen": "listen", "lisen": "listen", "lsiten": "listen", "public-url": "public_url", "upstream": "upstreams", "Cache": "cache",
		"cahce": "cache", "lgo": "log", "x": "", "": "", "frobnicate": "", "datum": "", "listeners": "listen", "tl": "tls",
	} {
		if got := Nearest(in, keys); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestWithin(t *testing.T) {
	verbs := []string{"approve", "gc", "ls", "rm", "serve", "verify"}
	for in, want := range map[string]string{
		"serve": "serve", "serv": "serve", "sever": "serve", "srve": "serve", "svre": "serve", "list": "ls", "lss": "ls", "l": "", "xy": "",
		"aprove": "approve", "apporve": "approve", "aprov": "approve", "apro": "", "": "", "status": "",
	} {
		if got := Within(2, in, verbs); got != want {
			t.Errorf("Within(2, %q) = %q, want %q", in, got, want)
		}
	}
}

func TestFew(t *testing.T) {
	names := []string{"cloudposse/label/null", "cloudposse/labels/null", "cloudposse/network/aws", "acme/label/null", "cloudposse/label/null"}
	for in, want := range map[string]string{
		"cloudposse/labe/null": "cloudposse/label/null cloudposse/labels/null", "cloudposse/netwrok/aws": "cloudposse/network/aws", "x/y/z": "", "": "",
	} {
		if got := strings.Join(Few(in, names, 2), " "); got != want {
			t.Errorf("Few(%q) = %q, want %q", in, got, want)
		}
	}
}
